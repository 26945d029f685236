"""Gymnasium's toy-text games FrozenLake and Taxi (Farama Foundation, MIT licence).

Their transition tables are public (`env.P`), so policy iteration gives the best policy (Sutton and Barto,
"Reinforcement Learning", 2018, section 4.3). Par is what this policy gets with the same chance. Only a worker
imports this module: see `mcp_bench.servers.adapters.remotes`.
"""

from __future__ import annotations

from copy import copy
from functools import cache, lru_cache
from random import Random
from typing import Any

import numpy as np
from gymnasium.envs.toy_text.frozen_lake import FrozenLakeEnv, generate_random_map
from gymnasium.envs.toy_text.taxi import TaxiEnv

from mcp_bench.servers.contracts import JSON, Score
from mcp_bench.servers.worlds.step_world import LOOK, Move, StepBenchmark, StepWorld, act_tool, play

DISCOUNT = 0.999
LAKE_SIDE = 6
LAKE = (
    "Walk over the frozen lake from S to G. F is ice; H is a hole, which ends the game. [ ] marks your place."
)
SLIPPERY = "The ice is slippery: you go where you want one time in three, else at a right angle to it."
TAXI = (
    "You drive a taxi. Go to the passenger, pick up, go to the destination, and drop off. Each move costs "
    "1 point, a pick-up or drop-off at the wrong place 10, and the delivery earns 20. T is your place; "
    "R, G, Y and B are the stations. Between two cells, ':' is open and '|' is a wall."
)
ACTIONS = {
    "frozen-lake": ("left", "down", "right", "up"),
    "frozen-lake-slippery": ("left", "down", "right", "up"),
    "taxi": ("south", "north", "east", "west", "pick up", "drop off"),
}
RULES = {"frozen-lake": LAKE, "frozen-lake-slippery": f"{LAKE} {SLIPPERY}", "taxi": TAXI}
STATIONS = ("R", "G", "Y", "B", "in the taxi")


@cache
def taxi() -> Any:
    """Return a Taxi whose tables all games share: they are the same in each, and take long to make."""
    return TaxiEnv()


@cache
def taxi_starts() -> list[int]:
    """Return Taxi's start states; the number of a game is an index.

    Each hundred has four of the twelve pairs of the passenger's place and the destination, so that no way
    from the one to the other is in two splits.
    """
    pairs: dict[tuple[int, int], list[int]] = {}
    for state in map(int, np.flatnonzero(taxi().initial_state_distrib)):
        _, _, passenger, destination = taxi().decode(state)
        pairs.setdefault((int(passenger), int(destination)), []).append(state)
    chance = Random("taxi")
    order = chance.sample(sorted(pairs), len(pairs))
    blocks = [[state for pair in order[at : at + 4] for state in pairs[pair]] for at in (0, 4, 8)]
    return [state for block in blocks for state in chance.sample(block, len(block))]


@lru_cache(maxsize=64)
def lake(number: int, *, slippery: bool) -> Any:
    """Return a lake with its tables."""
    layout = generate_random_map(size=LAKE_SIDE, p=0.8, seed=number)
    return FrozenLakeEnv(desc=layout, is_slippery=slippery)


def make(family: str, number: int) -> Any:
    """Return gymnasium's own environment of a game, at its start."""
    env: Any = copy(taxi() if family == "taxi" else lake(number, slippery=family.endswith("slippery")))
    env.reset(seed=number)
    if family == "taxi":
        env.s = taxi_starts()[number]
    return env


def best_actions(table: dict[int, dict[int, list[tuple[float, int, float, bool]]]]) -> list[int]:
    """Return the best action of each state, by policy iteration on a transition table."""
    count = len(table)
    moves, gains = np.zeros((count, len(table[0]), count)), np.zeros((count, len(table[0])))
    for state, actions in table.items():
        for action, outcomes in actions.items():
            for share, to, reward, end in outcomes:
                gains[state, action] += share * reward
                moves[state, action, to] += 0 if end else share
    places = np.arange(count)
    policy = np.zeros(count, dtype=int)
    while True:
        values = np.linalg.solve(np.eye(count) - DISCOUNT * moves[places, policy], gains[places, policy])
        worth = gains + DISCOUNT * moves @ values
        better = worth.max(axis=1) > worth[places, policy] + 1e-9  # else equal actions could alternate
        if not better.any():
            equal = worth > worth.max(axis=1, keepdims=True) - 1e-9
            return [int(action) for action in equal.argmax(axis=1)]  # the first one of equal actions
        policy = np.where(better, worth.argmax(axis=1), policy)


@cache
def taxi_policy() -> list[int]:
    return best_actions(make("taxi", 0).P)


class GymnasiumWorld(StepWorld):
    """One game of a family."""

    STEPS = 100

    def __init__(self, family: str, number: int) -> None:
        self.family, self.number = family, number
        self.actions = ACTIONS[family]
        self.move_tool = act_tool(self.actions)
        self._env = make(family, number)
        self._policy: list[int] | None = None
        self.total = 0.0
        self.steps_left = self.STEPS

    def observe(self) -> str:
        env = self._env
        if self.family == "taxi":
            row, column, passenger, destination = (int(part) for part in env.decode(env.s))
            lines = [line.tobytes().decode() for line in env.desc]
            at = 2 * column + 1
            lines[row + 1] = f"{lines[row + 1][:at]}T{lines[row + 1][at + 1 :]}"
            where = f"Passenger: {STATIONS[passenger]}. Destination: {STATIONS[destination]}."
            covered = env.desc[row + 1, at].decode().strip()
            text = "\n".join([*lines, where, *([f"You are at {covered}."] if covered else [])])
        else:
            row, column = divmod(int(env.s), LAKE_SIDE)
            cells = [[f" {cell.decode()} " for cell in line] for line in env.desc]
            cells[row][column] = f"[{cells[row][column].strip()}]"
            text = "\n".join("".join(line) for line in cells)
        return f"{text}\nMoves left: {self.steps_left}."

    def act(self, move: Move) -> float:
        _, reward, ended, _, _ = self._env.step(self.actions.index(str(move["action"])))
        self.total += float(reward)
        self.steps_left -= 1
        self.over = bool(ended) or not self.steps_left
        return float(reward)

    def policy(self) -> Move:
        if self._policy is None:
            self._policy = taxi_policy() if self.family == "taxi" else best_actions(self._env.P)
        return {"action": self.actions[self._policy[int(self._env.s)]]}

    def score(self) -> Score:
        best = par(self.family, self.number)
        return Score(name="return", value=self.total, unit="points", baseline=0, par=best)

    async def snapshot(self) -> JSON:
        return {"seen": self.observe(), "return": self.total}


@lru_cache(maxsize=4096)
def par(family: str, number: int) -> float:
    """Return what the best policy gets in a game."""
    game = GymnasiumWorld(family, number)
    play(game)
    return game.total


def route(number: int) -> tuple[str, ...]:
    """Return the best route over a firm lake."""
    return tuple(str(move["action"]) for move in play(GymnasiumWorld("frozen-lake", number)))


@cache
def routes(count: int) -> frozenset[tuple[str, ...]]:
    """Return the best routes of the first firm lakes."""
    return frozenset(map(route, range(count)))


class Gymnasium(StepBenchmark):
    name = "gymnasium"
    version = "2"
    summary = "FrozenLake (firm and slippery) and Taxi, against the best policy."
    families = tuple(ACTIONS)
    toolset = (act_tool(sorted({action for actions in ACTIONS.values() for action in actions})), LOOK)

    def playable(self, family: str, number: int) -> bool:
        """Return False where the best policy gets nothing, where a held-out lake has the same best route, and
        past the last start of Taxi."""
        if family == "taxi":
            return number < len(taxi_starts())
        if family == "frozen-lake":
            return number < 100 or route(number) not in routes(100 if number < 200 else 200)
        return par(family, number) > 0

    def make_game(self, family: str, number: int) -> GymnasiumWorld:
        return GymnasiumWorld(family, number)

    def make_rules(self, family: str) -> str:
        return RULES[family]


BENCHMARK = Gymnasium()
