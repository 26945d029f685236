"""Gymnasium's toy-text games FrozenLake and Taxi (Farama Foundation, MIT licence).

Their transition tables are public (`env.P`), so value iteration gives the best policy (Sutton and Barto,
"Reinforcement Learning", 2018, section 4.4). Par is what this policy gets with the same chance. Only a worker
imports this module: see `mcp_bench.servers.adapters.remotes`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, lru_cache
from random import Random
from typing import Any

import gymnasium
import numpy as np
from gymnasium.envs.toy_text.frozen_lake import generate_random_map

from mcp_bench.servers.contracts import JSON, Score, Task, ToolSpec
from mcp_bench.servers.step_world import LOOK, Move, StepBenchmark, StepWorld, play

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


def act_tool(actions: Sequence[str]) -> ToolSpec:
    return ToolSpec(
        name="act",
        description="Make a move. Returns what you see then.",
        input_schema={
            "type": "object",
            "properties": {"action": {"enum": list(actions)}},
            "required": ["action"],
            "additionalProperties": False,
        },
    )


@cache
def taxi_starts() -> list[int]:
    """Return Taxi's start states, shuffled once: the number of a game is an index, so splits share none."""
    env: Any = gymnasium.make("Taxi-v4").unwrapped
    states = [int(state) for state in np.flatnonzero(env.initial_state_distrib)]
    Random("taxi").shuffle(states)
    return states


def make(family: str, number: int) -> Any:
    """Return gymnasium's own environment of a game, at its start."""
    env: Any
    if family == "taxi":
        env = gymnasium.make("Taxi-v4").unwrapped
        env.reset(seed=number)
        env.s = taxi_starts()[number]
        return env
    layout = generate_random_map(size=LAKE_SIDE, p=0.8, seed=number)
    env = gymnasium.make("FrozenLake-v1", desc=layout, is_slippery=family.endswith("slippery")).unwrapped
    env.reset(seed=number)
    return env


def best_actions(table: dict[int, dict[int, list[tuple[float, int, float, bool]]]]) -> list[int]:
    """Return the best action of each state, by value iteration on a transition table."""
    shape = (len(table), len(table[0]))
    moves, gains = np.zeros((*shape, len(table))), np.zeros(shape)
    for state, actions in table.items():
        for action, outcomes in actions.items():
            for share, to, reward, end in outcomes:
                gains[state, action] += share * reward
                moves[state, action, to] += 0 if end else share
    values, before = np.zeros(len(table)), np.full(len(table), np.inf)
    while np.abs(values - before).max() > 1e-9:
        before = values
        values = (gains + DISCOUNT * moves @ values).max(axis=1)
    return [int(action) for action in (gains + DISCOUNT * moves @ values).argmax(axis=1)]


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


class Gymnasium(StepBenchmark):
    name = "gymnasium"
    summary = "FrozenLake (firm and slippery) and Taxi, against the best policy."
    families = tuple(ACTIONS)
    toolset = (act_tool(sorted({action for actions in ACTIONS.values() for action in actions})), LOOK)

    def playable(self, family: str, number: int) -> bool:
        """Return False where the best policy itself gets nothing, and past the last start of Taxi."""
        return (family != "taxi" or number < len(taxi_starts())) and par(family, number) > 0

    def make_game(self, family: str, number: int) -> GymnasiumWorld:
        return GymnasiumWorld(family, number)

    def make_task(self, task_id: str) -> Task | None:
        task = super().make_task(task_id)
        return task and task.model_copy(update={"system": RULES[task.domain]})


BENCHMARK = Gymnasium()
