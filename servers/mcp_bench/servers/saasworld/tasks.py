"""Task ids such as `sales-renewal-quote.3.train.17`, and the tasks built from them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from hashlib import sha256
from itertools import islice, zip_longest
from typing import NamedTuple, TypeVar

from mcp_bench.servers.errors import UnknownNameError, WrongUseError
from mcp_bench.servers.saasworld.authoring.builder import Builder, Built
from mcp_bench.servers.saasworld.authoring.family import (
    DOMAINS,
    PRACTICE,
    Family,
    all_families,
    family_places,
    load_family,
)
from mcp_bench.servers.saasworld.engine.seeder import FamilyError
from mcp_bench.servers.saasworld.grading.checks import grade
from mcp_bench.servers.saasworld.version import DRAWS
from mcp_bench.servers.secret import read_secret

SIZES = {"train": 1000, "dev": 300, "test": 300, "private": 300}
"""Number of tasks that a split lists. Higher numbers are valid tasks, too: splits are unlimited."""
LISTS = {**SIZES, PRACTICE: 1000}
"""`practice` lists tasks of `train`, of families that are listed nowhere else."""

PUBLIC = ("train", "dev", "test")
DEFAULT_SPLIT = "train"
MAX_NUMBER = 10**9
MAX_DRAWS = 50
"""Draws of one task. A family that fails this often in a row has a bug: single draws fail rarely."""
FIRST_DAY = 1_767_571_200
"""Monday, 2026-01-05, in seconds since the epoch."""

T = TypeVar("T")


class TaskId(NamedTuple):
    family: str
    level: int
    split: str
    number: int

    def __str__(self) -> str:
        return f"{self.family}.{self.level}.{self.split}.{self.number}"

    def seed(self) -> int:
        """Return the seed for everything about the task.

        Raises:
            SecretError: the split is private, and there is no secret.
        """
        secret = read_secret("saasworld") if self.split == "private" else b""
        return _seed(f"saasworld {DRAWS} {self}".encode() + secret)

    @property
    def half(self) -> int:
        """The half of the name pools that the task uses: training and test tasks share no names."""
        return 0 if self.split in ("train", "dev") else 1


def parse(text: str) -> TaskId:
    """Parse a task id.

    Raises:
        UnknownNameError: the family, level or split does not exist; the text names near matches.
        WrongUseError: the text is not a task id, or the family is not in that split.
    """
    found = re.fullmatch(r"([a-z0-9-]+)\.([0-9])\.([a-z]+)\.([0-9]{1,10})", text)
    if found is None:
        form = "FAMILY.LEVEL.SPLIT.NUMBER, such as simple-contact-details.1.train.0"
        raise (
            UnknownNameError("task", text, (), see="mcp-bench tasks saasworld")
            if "." not in text
            else WrongUseError(f"task {text!r}: ids are {form}")
        )
    name, level, split, number = found[1], int(found[2]), found[3], int(found[4])
    if name not in family_places():
        raise UnknownNameError("task family", name, family_places())
    if split not in SIZES:
        raise UnknownNameError("split", split, SIZES)
    family = load_family(name)
    if level not in family.levels:
        raise UnknownNameError(f"level of {name}", str(level), map(str, family.levels))
    if family.held_out != (split in ("test", "private")):
        where = "test and private" if family.held_out else "train and dev"
        raise WrongUseError(f"task {text!r}: the family {name} is in {where} only")
    if number >= MAX_NUMBER or str(number) != found[4]:
        raise WrongUseError(f"task {text!r}: the number must be below {MAX_NUMBER}, without leading zeros")
    return TaskId(name, level, split, number)


@lru_cache(maxsize=64)
def _build(task: TaskId, seed: int) -> Built:
    """Build the task from the first draw that gives a sound one.

    A draw can ask for nothing, such as for the limit that a budget already has. The next draw has another
    seed, which follows from the first one, so that every number is a task, and the same one everywhere.
    """
    last = ""
    failure: Exception | None = None
    for draw in range(MAX_DRAWS):
        try:
            return _drawn(task, seed if draw == 0 else _seed(f"{seed} {draw}".encode()))
        except Exception as error:  # a family's own code
            failure, last = error, f"{type(error).__name__}: {error}"
    raise FamilyError(
        f"task {task}: none of {MAX_DRAWS} draws gives a task. The last one: {last}"
    ) from failure


def _drawn(task: TaskId, seed: int) -> Built:
    now = FIRST_DAY + 604_800 * (seed % 73) + 86_400 * (seed % 5) + 60 * (480 + seed % 241)
    builder = Builder(seed, task.half, now, task.level)
    load_family(task.family).build(builder)
    built = builder.finish()
    if not grade(builder.state, built.assertions).strict:
        raise FamilyError("the reference solution does not solve the task")
    return built


def _seed(words: bytes) -> int:
    return int.from_bytes(sha256(words).digest())


def build(task: TaskId) -> Built:
    """Build the task. It is set in some company, on the morning of a working day.

    Raises:
        FamilyError: the family has a bug: no draw gives a task.
        SecretError: the split is private, and there is no secret.
    """
    return _build(task, task.seed())


def listing(split: str | None, limit: int | None) -> Iterator[TaskId]:
    """Yield the tasks of a split, cycling through domains, levels and families, so the first few are varied.

    `practice` yields tasks of `train`.

    Raises:
        UnknownNameError: there is no such split.
    """
    if split == "all":
        yield from islice((task for name in PUBLIC for task in listing(name, None)), limit)
        return
    split = DEFAULT_SPLIT if split is None else split
    if split not in LISTS:
        raise UnknownNameError("split", split, (*LISTS, "all"))
    held_out, practice = split in ("test", "private"), split == PRACTICE
    kinds = _kinds([f for f in all_families() if (f.held_out, f.practice) == (held_out, practice)])
    count = LISTS[split] if limit is None else min(limit, LISTS[split])
    for number in range(count if kinds else 0):
        family, level = kinds[number % len(kinds)]
        yield TaskId(family.id, level, "train" if practice else split, number // len(kinds))


def _kinds(families: Sequence[Family]) -> list[tuple[Family, int]]:
    """Return every family at each of its levels, ordered so that neighbours differ in both."""
    per_domain = []
    for turn, domain in enumerate(DOMAINS):
        own = [family for family in families if family.domain == domain]
        levels = sorted({level for family in own for level in family.levels})
        turned = levels[turn % len(levels) :] + levels[: turn % len(levels)] if levels else []
        per_domain.append(
            in_turn([(family, level) for family in own if level in family.levels] for level in turned)
        )
    return in_turn(per_domain)


def in_turn(lists: Iterable[Sequence[T]]) -> list[T]:
    """Interleave the lists: the first item of each, then the second of each, and so on."""
    rows = zip_longest(*([[item] for item in items] for items in lists), fillvalue=[])
    return [item for row in rows for one in row for item in one]
