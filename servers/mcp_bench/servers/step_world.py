"""Worlds that are played move by move, such as games: look, move, and at the end a score.

A game says what is seen, what a move does, and its score with a baseline and a par. Whether par is reached
stays on the trusted side, like the reward of each move (`ToolResult.reward`): results show what the game
itself shows.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence

from mcp_bench.servers.contracts import JSON, Reference, Task, ToolCall, ToolResult, ToolSpec
from mcp_bench.servers.errors import BenchError
from mcp_bench.servers.grading import AssertionResult, Grade, Score, share_of_par
from mcp_bench.servers.simple import SimpleBenchmark, SimpleWorld

Move = dict[str, JSON]
"""The arguments of a world's move tool."""

LOOK = ToolSpec(
    name="look",
    description="Show the current state of the game again. This is not a move.",
    input_schema={"type": "object", "properties": {}, "additionalProperties": False},
)
OVER = "The game is over."
NUMBERS = {"train": range(200, 1200), "dev": range(100, 200), "test": range(100)}
"""The numbers of a split. Games of one family differ in chance only, so no split has a game of another."""


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
            move: arguments that match the schema of `move_tool`.

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
            reward = self.act(arguments)
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


class StepBenchmark(SimpleBenchmark):
    """A benchmark of step worlds with the ids `FAMILY.NUMBER`. All chance follows from the id.

    A subclass sets `name`, `summary`, `families` and `toolset`, and implements `make_game`. The number
    decides the split: below 100 test, below 200 dev, all others train. The list of train ends after 1,000
    numbers; higher ones are tasks, too.
    """

    families: Sequence[str] = ()
    rules: str = ""
    """`Task.system` of every task. What tasks share is no leak from one split to another."""
    max_calls: int = 200
    attempt_seconds: float | None = None

    @abstractmethod
    def make_game(self, family: str, number: int) -> StepWorld:
        """Return a new game."""

    def playable(self, family: str, number: int) -> bool:
        """Return whether there is something to earn in a game. The others are no tasks."""
        return True

    def make_prompt(self, family: str, number: int) -> str:
        """Return the prompt: by default what the player sees at first."""
        seen = self.make_game(family, number).observe()
        return seen if isinstance(seen, str) else seen.text

    def ids(self, split: str) -> Iterator[str]:
        for number in NUMBERS[split]:
            for family in self.families:
                if self.playable(family, number):
                    yield f"{family}.{number}"

    def make_task(self, task_id: str) -> Task | None:
        family, _, digits = task_id.rpartition(".")
        if family not in self.families or not (digits.isascii() and digits.isdecimal()):
            return None
        number = int(digits)
        if str(number) != digits or not self.playable(family, number):
            return None
        return Task(
            id=task_id,
            benchmark=self.name,
            prompt=self.make_prompt(family, number),
            split=split_of(number),
            domain=family,
            max_calls=self.max_calls,
            timeout=self.attempt_seconds,
            system=self.rules,
        )

    def make_world(self, task_id: str, seed: int) -> StepWorld:
        """Return a new game. Chance follows from the id alone, so `seed` changes nothing."""
        family, _, number = task_id.rpartition(".")
        return self.make_game(family, int(number))

    def reference(self, task_id: str) -> Reference | None:
        """Return what the policy does in this game."""
        self.task(task_id)
        moves = play(self.make_world(task_id, 0))
        tool = self.make_world(task_id, 0).move_tool.name
        return (
            Reference(calls=tuple(ToolCall(name=tool, arguments=move) for move in moves)) if moves else None
        )


def play(world: StepWorld) -> list[Move]:
    """Let a world's policy play until the end, and return its moves."""
    moves: list[Move] = []
    while not world.over and (move := world.policy()) is not None:
        moves.append(move)
        world.act(move)
    return moves


def split_of(number: int) -> str:
    """Return the split of a game's number."""
    return next((name for name in ("test", "dev") if number in NUMBERS[name]), "train")
