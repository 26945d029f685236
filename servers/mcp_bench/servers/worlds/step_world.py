"""Worlds that are played move by move, such as games: look, move, and at the end a score.

A game says what is seen, what a move does, and its score with a baseline and a par. Whether par is reached
stays on the trusted side, like the reward of each move (`ToolResult.reward`): results show what the game
itself shows.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

from mcp_bench.servers.contracts import JSON, Reference, Task, ToolCall, ToolResult, ToolSpec
from mcp_bench.servers.errors import BenchError
from mcp_bench.servers.grading import AssertionResult, Grade, Score, share_of_par
from mcp_bench.servers.secret import PRIVATE, made_secret, private_seed
from mcp_bench.servers.worlds.object_tool import object_tool
from mcp_bench.servers.worlds.simple import SimpleBenchmark, SimpleWorld, whole_numbers

Move = dict[str, JSON]
"""The arguments of a world's move tool."""

LOOK = object_tool("look", "Show the current state of the game again. This is not a move.")


def act_tool(actions: Sequence[str]) -> ToolSpec:
    """Return the tool of a game whose moves are a few words: `act` with one of them as `action`."""
    return object_tool(
        "act", "Make a move. Returns what you see then.", ("action",), action={"enum": list(actions)}
    )


def text_tool(name: str, description: str) -> ToolSpec:
    """Return the tool of a game whose moves are any text: `action` has up to 200 characters."""
    return object_tool(name, description, ("action",), action={"type": "string", "maxLength": 200})


OVER = "The game is over."
MOST_KEPT = 10_000
"""How many references of a benchmark are kept, some kilobytes each."""
NUMBERS = {"train": range(200, 1200), "dev": range(100, 200), "test": range(100), PRIVATE: range(100)}
"""The numbers of a split. Games of one family differ in chance only, so no split has a game of another."""


class Game(NamedTuple):
    """A game by its id: `FAMILY.NUMBER`, or `FAMILY.private.NUMBER`."""

    family: str
    split: str
    seed: int
    """What chance follows from: the number itself, or what a secret makes of a private one."""


class IllegalMoveError(BenchError):
    """The rules do not allow the move; the text says why. The agent reads it, and the world is unchanged."""


class StepWorld(SimpleWorld):
    """A world that changes by moves.

    A subclass sets `move_tool` and `over`, and implements `observe`, `act` and `score`. With `policy`, it can
    play itself: a reference is what the policy does on a world of its own.
    """

    move_tool: ToolSpec
    over: bool = False
    """Whether no further move is possible. `act` sets it."""

    @abstractmethod
    def observe(self) -> str | ToolResult:
        """Return what the player sees now: a text, or a result with images."""

    @abstractmethod
    def act(self, move: Move) -> float:
        """Make a move and return its reward.

        Args:
            move: arguments that match the schema of `move_tool`; 2.0 is 2 by then.

        Raises:
            IllegalMoveError: the rules do not allow it.
        """

    @abstractmethod
    def score(self) -> Score:
        """Return the score so far. It needs `baseline` (doing nothing) and `par` (a good player)."""

    def policy(self) -> Move | None:
        """Return the move of a good player, or None: there is nothing left to do."""
        return None

    def tools(self) -> Sequence[ToolSpec]:
        return (self.move_tool, LOOK)

    async def call(self, name: str, arguments: dict[str, JSON]) -> ToolResult:
        if name == LOOK.name:
            return self._seen()
        if self.over:
            return ToolResult(text=OVER, is_error=True, done=True)
        try:
            reward = self.act(whole_numbers(arguments))
        except IllegalMoveError as error:
            return ToolResult(text=str(error), is_error=True)
        return self._seen().model_copy(update={"reward": reward, "done": self.over})

    async def suggest(self) -> ToolCall | str:
        move = None if self.over else self.policy()
        return "" if move is None else ToolCall(name=self.move_tool.name, arguments=move)

    async def grade(self, answer: str) -> Grade:
        """Return the share of the way from baseline to par; success is par or better."""
        score = self.score()
        if score.baseline is None or score.par is None:
            raise ValueError(f"the score {score.name!r} of {type(self).__name__} lacks a baseline or a par")
        partial = share_of_par(score.value, baseline=score.baseline, par=score.par)
        reached = AssertionResult(
            name=f"{score.name} reaches par",
            passed=partial == 1,
            detail=f"{score.value:g}, par is {score.par:g}",
        )
        return Grade(
            partial=partial,
            strict=reached.passed,
            assertions=(reached,),
            metrics={score.name: score.value},
            grader_version=self.grader_version,
            score=score,
        )

    def _seen(self) -> ToolResult:
        seen = self.observe()
        result = ToolResult(text=seen) if isinstance(seen, str) else seen
        return result.model_copy(update={"text": f"{result.text}\n{OVER}"}) if self.over else result


class TextWorld(StepWorld):
    """A step world of words: moves are made with a `text_tool`, and what is seen is a text.

    A subclass sets `most_moves`, begins with a `text`, and calls `show` once for each move.
    """

    most_moves: int
    counted: str = "Moves"
    """What moves are called."""
    text: str = ""
    """What the player sees now."""
    moves_made: int = 0

    def observe(self) -> str:
        return f"{self.text}\n{self.counted} left: {self.most_moves - self.moves_made}."

    def show(self, text: str, *, over: bool) -> None:
        """Take down what is seen after a move. The last move that there is ends the game."""
        self.text, self.moves_made = text, self.moves_made + 1
        self.over = over or self.moves_made >= self.most_moves


class StepBenchmark(SimpleBenchmark):
    """A benchmark of step worlds with the ids `FAMILY.NUMBER` and `FAMILY.private.NUMBER`.

    All chance follows from the number, or, in the split `private`, from the secret of this machine.
    A subclass sets `name`, `summary`, `families` and `toolset`, and implements `make_game`. `numbers` says
    the split of a number, and all other numbers are train's: they are tasks, but not listed.
    """

    private_splits: tuple[str, ...] = (PRIVATE,)
    families: Sequence[str] = ()
    held_out: Sequence[str] = ()
    """Those of `families` that only `test` and `private` have."""
    numbers: Mapping[str, Sequence[int]] = NUMBERS
    rules: str = ""
    """`Task.system` of every task. What tasks share is no leak from one split to another."""
    max_calls: int = 200
    attempt_seconds: float | None = None

    @abstractmethod
    def make_game(self, family: str, number: int) -> StepWorld:
        """Return a new game.

        Args:
            number: what its chance follows from, 0 to 2**63 - 1.
        """

    def playable(self, family: str, number: int) -> bool:
        """Return whether there is something to earn in a game. The others are no tasks."""
        return True

    def is_new(self, family: str, number: int) -> bool:
        """Return whether no game of `test` begins with the same screen. `playable` can ask for it."""
        if number in self.numbers["test"]:
            return True
        held: dict[str, frozenset[str]] = self.__dict__.setdefault("_first_screens", {})
        if family not in held:
            held[family] = frozenset(self.make_prompt(family, other) for other in self.numbers["test"])
        return self.make_prompt(family, number) not in held[family]

    def make_prompt(self, family: str, number: int) -> str:
        """Return the prompt: by default what the player sees at first."""
        seen = self.make_game(family, number).observe()
        return seen if isinstance(seen, str) else seen.text

    def make_rules(self, family: str) -> str:
        """Return `Task.system` of a family's tasks: by default `rules`."""
        return self.rules

    def split_of(self, family: str, number: int) -> str:
        """Return the split of a public game."""
        if family in self.held_out:
            return "test"
        return next((name for name in ("test", "dev") if number in self.numbers[name]), "train")

    def prepare_split(self, split: str) -> str | None:
        """Create the secret of the private split on its first use, and return what to say about it.

        Raises:
            SecretError: it cannot be written.
        """
        return made_secret(self.name) if split in self.private_splits else None

    def ids(self, split: str) -> Iterator[str]:
        between = f".{PRIVATE}." if split == PRIVATE else "."
        for number in self.numbers[split]:
            for family in self.families:
                if family in self.held_out and split not in ("test", PRIVATE):
                    continue
                task_id = f"{family}{between}{number}"
                if self.game_of(task_id) is not None:
                    yield task_id

    def make_task(self, task_id: str) -> Task | None:
        game = self.game_of(task_id)
        return game and Task(
            id=task_id,
            benchmark=self.name,
            prompt=self.make_prompt(game.family, game.seed),
            split=game.split,
            domain=game.family,
            max_calls=self.max_calls,
            timeout=self.attempt_seconds,
            system=self.make_rules(game.family),
        )

    def make_world(self, task_id: str, seed: int) -> StepWorld:
        """Return a new game. Chance follows from the task alone, so `seed` changes nothing."""
        game = self.game_of(task_id)
        assert game is not None  # noqa: S101 - `open` has looked it up
        return self.make_game(game.family, game.seed)

    def reference(self, task_id: str) -> Reference | None:
        """Return what the policy does in this game, or None if it does not reach par.

        It is kept as text: a run asks whether there is one, and asks again to play it.
        """
        self.check_id(task_id)
        game = self.game_of(task_id)  # a private game is another one on another machine
        kept = self._references
        if game not in kept:
            if len(kept) >= MOST_KEPT:
                kept.clear()
            found = self._solved(task_id)
            kept[game] = found.model_dump_json() if found else None
        text = kept[game]
        return None if text is None else Reference.model_validate_json(text)

    @cached_property
    def _references(self) -> dict[Game | None, str | None]:
        """References that were asked for, by game; None: its policy does not reach par."""
        return {}

    def _solved(self, task_id: str) -> Reference | None:
        """Let the policy play a game."""
        world = self.make_world(task_id, 0)
        calls = tuple(ToolCall(name=world.move_tool.name, arguments=move) for move in play(world))
        score = world.score()
        if not calls or score.par is None or score.baseline is None:
            return None
        share = share_of_par(score.value, baseline=score.baseline, par=score.par)
        return Reference(calls=calls) if share == 1 else None

    def check_id(self, task_id: str) -> None:
        """Raise an error if there is no such task, without playing its game's beginning."""
        if self.game_of(task_id) is None:
            self.task(task_id)  # raises

    def game_of(self, task_id: str) -> Game | None:
        """Return the game of an id, or None if it is no task."""
        place, _, digits = task_id.rpartition(".")
        family = place.removesuffix(f".{PRIVATE}")
        if family not in self.families or not (digits.isascii() and digits.isdecimal()):
            return None
        number = int(digits)
        if str(number) != digits:
            return None
        if family == place:
            game = Game(family, self.split_of(family, number), number)
        elif number in self.numbers[PRIVATE]:
            game = Game(family, PRIVATE, private_seed(self.name, task_id))
        else:
            return None
        return game if self.playable(family, game.seed) else None


def play(world: StepWorld) -> list[Move]:
    """Let a world's policy play until the end, and return its moves."""
    moves: list[Move] = []
    while not world.over and (move := world.policy()) is not None:
        moves.append(move)
        world.act(move)
    return moves
