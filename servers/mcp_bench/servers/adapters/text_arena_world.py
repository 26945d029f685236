"""One game of TextArena, alone or against a scripted opponent. Only a worker imports this module."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from threading import Lock
from typing import Any, NamedTuple

import textarena

from mcp_bench.servers.adapters import text_arena_players as players
from mcp_bench.servers.contracts import JSON, Score
from mcp_bench.servers.worlds.step_world import Move, TextWorld, text_tool

Solver = Callable[[str], str | None]
MOVE = text_tool(
    "move", "Make a move in the format that the rules name, such as [3]. Returns what happens then."
)
OPPONENT = 1
PROMPT, BOARD = textarena.ObservationType.PROMPT, textarena.ObservationType.GAME_BOARD


class Setup(NamedTuple):
    """A game, by the name that TextArena gives it, and who can play it."""

    name: str
    solver: Callable[[], Solver] | None = None
    """Makes a player of the puzzle who reads what the game shows; None: there is none."""
    moves: Callable[[Any, str], list[str]] | None = None
    """Returns the legal moves of a board game for two."""
    opening: int = 0
    """Random moves before a board game begins, an even number."""


GAMES = {
    "lights-out": Setup("LightsOut-v0", players.LightsOut),
    "frozen-lake": Setup("FrozenLake-v0-random", players.FrozenLake),
    "sudoku": Setup("Sudoku-v0", players.Sudoku),
    "connect-four": Setup("ConnectFour-v0", moves=players.columns, opening=6),
    "simple-tak": Setup("SimpleTak-v0-medium", moves=players.listed, opening=6),
    "othello": Setup("Othello-v0-small", moves=players.listed, opening=6),
    "guess-the-number": Setup("GuessTheNumber-v0", players.GuessTheNumber),
    "mastermind": Setup("Mastermind-v0", players.Mastermind),
    "minesweeper": Setup("Minesweeper-v0-small"),
    "nim": Setup("Nim-v0-large", players.Nim, moves=players.removals, opening=2),
}
"""Left out are three puzzles that TextArena 0.7.4 does not grade: `Bandit-v0` never finds a button right, the
winning move of `FifteenPuzzle-v0` raises an error, and `Countdown-v0` has one board."""
ONE_AT_A_TIME = Lock()
"""Games draw from Python's one global generator, and tasks are listed in a thread."""


class TextArenaWorld(TextWorld):
    """One game. The agent is player 0."""

    move_tool = MOVE
    most_moves = 120

    def __init__(self, family: str, number: int) -> None:
        self._setup = GAMES[family]
        self.family, self.number = family, number
        self._chance = random.Random(f"{family}.{number}").getstate()
        self.rewards: dict[str, float] = {}
        self.theirs: list[str] = []
        """What the opponent has read since it was last asked."""
        with self.own_chance():
            self._env: Any = textarena.make(f"{self._setup.name}-raw")
            self._env.reset(num_players=2 if self._setup.moves else 1, seed=number)
            shown = self.heard()
            self.rules = "\n".join(text for text, kind in shown if kind == PROMPT)
            self.text = (
                "\n".join(text for text, kind in shown if kind != PROMPT).strip() or "It is your move."
            )
            for _ in range(self._setup.opening):
                self._env.step(random.choice(self._legal(self._env)))
                self.text = "\n".join(text for text, kind in self.heard() if kind == BOARD).strip()
            self._solver = self._setup.solver() if self._setup.solver else None
            self._next = self._solver(self.text) if self._solver else None

    def act(self, move: Move) -> float:
        with self.own_chance():
            over = self.step(str(move["action"]))
            while not over and self.opponents_turn:
                over = self.step(self._best(careful=False))
        return self.settle(over=over)

    @property
    def opponents_turn(self) -> bool:
        return bool(self._env.state.current_player_id)

    def step(self, action: str) -> bool:
        """Make the move of the player whose turn it is, and return whether the game is over."""
        over, _ = self._env.step(action)
        return bool(over)

    def settle(self, *, over: bool) -> float:
        """Take down what the agent sees after a move and the answer to it, and return the reward."""
        text = "\n".join(text for text, _ in self.heard(0)).strip()
        if over:
            rewards, outcome = self._env.close()
            self.rewards = {str(who): own for who, own in rewards.items()}
            text = f"{text}\n{outcome[0].get('reason', '')}".strip()
        self.show(text, over=over)
        self._next = self._solver(self.text) if self._solver and not self.over else None
        return self.rewards.get("0", 0.0)

    def policy(self) -> Move | None:
        """Return a solver's move, or in a board game what `_best` finds."""
        if self._setup.moves and not self._solver:
            with self.own_chance(keep=False):
                return {"action": self._best(careful=True)}
        return None if self._next is None else {"action": self._next}

    def score(self) -> Score:
        """Return the game's own reward. A board game that is not over is lost, a draw half a win."""
        worst = -1.0 if self._setup.moves else 0.0
        value = max(self.rewards.get("0", worst), worst)
        return Score(name="reward", value=value, unit="points", baseline=worst, par=1)

    async def snapshot(self) -> JSON:
        return {"seen": self.text, "moves": self.moves_made, "rewards": {**self.rewards}}

    @contextmanager
    def own_chance(self, *, keep: bool = True) -> Iterator[None]:
        """Let the global generator continue where this game left it."""
        with ONE_AT_A_TIME:
            others = random.getstate()
            random.setstate(self._chance)
            try:
                yield
            finally:
                if keep:
                    self._chance = random.getstate()
                random.setstate(others)

    def heard(self, player: int | None = None) -> list[tuple[str, Any]]:
        """Return what a player, by default the one to move, has not read yet."""
        state = self._env.state
        to = state.current_player_id if player is None else player
        heard, state.observations[to] = state.observations[to], []
        if to == OPPONENT:
            self.theirs += [str(text) for _, text, _ in heard]
        return [(str(text), kind) for _, text, kind in heard]

    def _legal(self, env: Any) -> list[str]:
        assert self._setup.moves is not None  # noqa: S101 - only board games are asked
        unread = env.state.observations[env.state.current_player_id]
        return self._setup.moves(env, "\n".join([self.text, *(str(text) for _, text, _ in unread)])) or [
            "[skip]"
        ]

    def _best(self, *, careful: bool) -> str:
        """Return a move that wins, else any; if `careful`, none after which the other one wins at once."""
        options = self._legal(self._env)
        random.shuffle(options)
        left = []
        for option in options:
            after = deepcopy(self._env)
            if self._wins(after, option):
                return option
            if (
                not careful
                or after.state.done
                or not any(self._wins(deepcopy(after), reply) for reply in self._legal(after))
            ):
                left.append(option)
        return next(iter(left or options))

    @staticmethod
    def _wins(env: Any, move: str) -> bool:
        """Make a move, and return whether it wins."""
        player = env.state.current_player_id
        over, _ = env.step(move)
        return bool(over) and env.close()[0].get(player) == 1
