"""reasoning-gym: generated puzzles with one answer each, graded by its own verifiers.

Stojanovski et al., "Reasoning Gym: Reasoning Environments for Reinforcement Learning with Verifiable Rewards"
(2025), https://github.com/open-thought/reasoning-gym, Apache-2.0. The agent reads a question and hands in an
answer; there are no other tools. `test` has generators of its own. Only a worker imports this module: see
`mcp_bench.servers.adapters.remotes`.
"""

from __future__ import annotations

import contextlib
import io
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import count
from typing import Any

import reasoning_gym
from reasoning_gym.factory import DATASETS

from mcp_bench.servers.adapters.safe_answers import (
    LONGEST,
    is_arithmetic,
    is_literal,
    is_near,
    makes_24,
    names_no_number,
    same_numbers,
)
from mcp_bench.servers.contracts import (
    JSON,
    PARTIAL_CEILING,
    AssertionResult,
    Grade,
    Reference,
    Task,
    ToolResult,
)
from mcp_bench.servers.worlds.answer import ANSWER_TAKEN, SUBMIT_ANSWER
from mcp_bench.servers.worlds.simple import SimpleBenchmark, SimpleWorld

UNANSWERED = {"boxnet", "graph_color", "propositional_logic", "rubiks_cube", "rush_hour"}
"""Their entries have no stored answer, so nothing shows that a puzzle can be solved."""
SLOW = {"knight_swap", "sokoban"}
"""Up to ten seconds for one puzzle."""
OTHER = {"composite", "game_of_life_halting", "intermediate_integration"}
"""A mixture of others; a verifier that takes any text for `false`; one that runs any function."""
LITERALS = {"binary_matrix", "n_queens", "spiral_matrix", "string_insertion"}
"""Their verifiers call `eval` on an answer."""
EXPRESSIONS = {"countdown", "polynomial_multiplication", "puzzle24", "simple_integration"}
"""Their verifiers call sympy's `parse_expr`, which is `eval`."""
PROBABILITIES = {"coin_flip"}
"""Its verifier compares how two numbers begin, so that `0` fits nearly all, and works out any exponent."""
GENERATORS = tuple(sorted({*DATASETS} - UNANSWERED - SLOW - OTHER))
TEST = (
    "acre",
    "base_conversion",
    "caesar_cipher",
    "calendar_arithmetic",
    "circuit_logic",
    "color_cube_rotation",
    "countdown",
    "course_schedule",
    "cryptarithm",
    "gcd",
    "isomorphic_strings",
    "jugs",
    "maze",
    "mini_sudoku",
    "modulo_grid",
    "number_filtering",
    "polynomial_multiplication",
    "rearc",
    "self_reference",
    "shortest_path",
    "simple_integration",
    "spiral_matrix",
    "time_intervals",
    "zebra_puzzles",
)
"""Generators that only the split test has: some of each kind, and none with a near twin in the others."""
PER_GENERATOR = {"dev": 5, "test": 10}
"""Puzzles of each generator. Numbers of train begin above those of dev, and do not end."""
FORM = "Hand in the answer alone, in the form that the question asks for."
NEAR = {"complex_arithmetic", "polynomial_equations"}
"""Their verifiers compare floating point numbers. Others give 0.99 for what is wrong: a day too many."""
SOLVED = 0.99
"""Score of these from which a puzzle is solved."""


@dataclass(frozen=True)
class Puzzle:
    """A generated puzzle and its verifier."""

    generator: str
    data: Any
    entry: dict[str, Any]

    @property
    def question(self) -> str:
        return str(self.entry["question"])

    @property
    def answer(self) -> str:
        """The stored answer."""
        return str(self.entry["answer"])

    def score(self, answer: str) -> float:
        """Return upstream's score of an answer, 0 to 1. One that it cannot, or must not, read gets 0."""
        if not answer.strip() or len(answer) > LONGEST:
            return 0.0
        if names_no_number(answer) and not names_no_number(self.answer):  # NaN is near any number
            return 0.0
        if self.generator in PROBABILITIES:
            return float(is_near(answer, self.answer))
        if self.generator == "number_sorting" and not same_numbers(answer, self.answer):
            return 0.0  # upstream lets each number be one off
        if self.generator in LITERALS and not is_literal(answer):
            return 0.0
        if self.generator in EXPRESSIONS and not is_arithmetic(answer):
            return 0.0
        if self.generator == "puzzle24" and not makes_24(answer, self.answer):
            return 0.0  # upstream takes any four numbers
        # no answer, however odd, may invalidate the agent's own episode
        with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(Exception):
            score = float(self.data.score_answer(answer, self.entry))
            return score if math.isfinite(score) else 0.0
        return 0.0


@lru_cache(maxsize=256)
def puzzle(generator: str, number: int) -> Puzzle:
    """Return a puzzle. It follows from the generator and the number."""
    with contextlib.redirect_stdout(io.StringIO()):  # some of them print
        data = reasoning_gym.create_dataset(generator, size=1, seed=number)
        return Puzzle(generator, data, data[0])


class PuzzleWorld(SimpleWorld):
    """One puzzle. The last answer counts."""

    toolset = (SUBMIT_ANSWER,)
    grader_version = "3"

    def __init__(self, puzzle: Puzzle) -> None:
        self._puzzle = puzzle
        self.answer: str | None = None

    async def call(self, name: str, arguments: dict[str, JSON]) -> ToolResult:
        self.answer = str(arguments["answer"])
        return ANSWER_TAKEN

    async def grade(self, answer: str) -> Grade:
        given = answer if self.answer is None else self.answer
        score = self._puzzle.score(given)
        enough = SOLVED if self._puzzle.generator in NEAR else 1.0
        solved = score >= enough or given.strip() == self._puzzle.answer.strip()
        check = AssertionResult(
            name="answer is right", passed=solved, detail="" if solved else f"it is {self._puzzle.answer}"
        )
        return Grade(
            partial=1.0 if solved else min(max(score, 0.0), PARTIAL_CEILING),
            strict=solved,
            assertions=(check,),
            metrics={"score": score},
            grader_version=self.grader_version,
        )


class ReasoningGym(SimpleBenchmark):
    name = "reasoning-gym"
    version = "3"
    summary = "Generated puzzles of 96 kinds, each with one verified answer."
    toolset = (SUBMIT_ANSWER,)

    def ids(self, split: str) -> Iterator[str]:
        generators = TEST if split == "test" else sorted({*GENERATORS} - {*TEST})
        numbers = count(PER_GENERATOR["dev"]) if split == "train" else range(PER_GENERATOR[split])
        return (f"{generator}.{number}" for number in numbers for generator in generators)

    def make_task(self, task_id: str) -> Task | None:
        generator, _, digits = task_id.partition(".")
        if generator not in GENERATORS or not (digits.isascii() and digits.isdecimal()):
            return None
        number = int(digits)
        if str(number) != digits:
            return None
        held_out = generator in TEST
        return Task(
            id=task_id,
            benchmark=self.name,
            prompt=puzzle(generator, number).question,
            split="test" if held_out else "dev" if number < PER_GENERATOR["dev"] else "train",
            domain=generator,
            system=FORM,
        )

    def make_world(self, task_id: str, seed: int) -> PuzzleWorld:
        """Return a new world. The puzzle follows from the id, so `seed` changes nothing."""
        return PuzzleWorld(named(task_id))

    def reference(self, task_id: str) -> Reference:
        self.task(task_id)
        return Reference(answer=named(task_id).answer)


def named(task_id: str) -> Puzzle:
    generator, _, number = task_id.partition(".")
    return puzzle(generator, int(number))


BENCHMARK = ReasoningGym()
