"""Texts that an agent wrote for other agents, searched for what they must not contain.

Instructions, lessons and skills are made from tasks of `train` and measured on others. A text leaks if it
quotes a held-out prompt or solution, if it has a rare literal of a held-out task (an id, an address, an
amount, a name), or if it has a canary. And one with many literals of single training tasks is a copy of these
tasks, not a lesson. What a text does is not looked at: a leaked procedure is for test families to find.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Literal

from mcp_bench.recorder.leakage.held_out import held_out
from mcp_bench.recorder.leakage.split_index import SIMILAR, Row, SplitIndex
from mcp_bench.recorder.taint import Canaries, Canary
from mcp_bench.recorder.trajectory import Message
from mcp_bench.servers.contracts import Benchmark, Reference, Task
from mcp_bench.servers.errors import UnknownNameError

Kind = Literal["literal", "quotation", "canary", "training literals"]

HELD_OUT = ("dev", "test")
RARE_SHARE = 0.02
"""Of the tasks of a split. What more of them have identifies no task."""
MOST_TRAINING_LITERALS = 12
"""Values of single training tasks in one harness. An example or two need some."""
LONGEST = 200
"""Characters of a literal: longer values are prose, and `quotation` is for that."""
FEWEST = 4

_VALUE = re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+|https?://[^\s\"'<>)]+|[\w#$€£-]*\d[\w.,:/-]*")
"""Mail addresses, URLs, and words with a digit: ids, amounts, dates."""
_QUOTED = re.compile(r"\"([^\"\n]{4,200})\"|“([^”\n]{4,200})”")
_EDGE = " \t\r\n.,;:!?()[]{}<>\"'`*_"
_PLAIN_NUMBER = re.compile(r"[\d.,:]{1,5}")
"""Small numbers and times of day are in every text."""


@dataclass(frozen=True)
class Found:
    """Something that a text must not contain."""

    kind: Kind
    file: str
    line: int
    """The first one is 1; 0 is the whole text."""
    what: str
    """It, for the operator only."""
    of: str
    """Where it comes from, for the operator only."""

    @property
    def where(self) -> str:
        return f"{self.file}, line {self.line}" if self.line else self.file

    def words(self) -> str:
        """Return what the operator reads."""
        return f"{self.where}: {self.kind} {self.what!r} of {self.of}"

    def for_agents(self) -> str:
        """Return what an agent may read: where, but neither the text nor the task."""
        about = {
            "literal": "has a value of a task that is kept back",
            "quotation": "quotes a task that is kept back",
            "canary": "has a text that was planted to be found",
            "training literals": "copies values of single training tasks: say what holds for all of them",
        }
        return f"{self.where}: {about[self.kind]}"


class TextCheck:
    """Searches texts for the held-out tasks of a benchmark. Making one builds all tasks. Blocks."""

    def __init__(self, benchmark: Benchmark, canaries: Iterable[Canary] = ()) -> None:
        self._indexes: list[SplitIndex] = []
        self._name = benchmark.name
        self._canaries = Canaries(canaries)
        self._train, self._known = _literals(benchmark, "train")
        self._held: dict[str, str] = {}
        for split in HELD_OUT:
            with suppress(UnknownNameError):  # it has no such split
                self._indexes.append(SplitIndex(held_out(benchmark, split)))
            found, _ = _literals(benchmark, split)
            most = max(1, int(RARE_SHARE * len({task for tasks in found.values() for task in tasks})))
            for literal, tasks in found.items():
                if len(tasks) <= most:
                    self._held.setdefault(literal, f"the {split} task {tasks[0]}")

    def find(self, files: Mapping[str, str], allowed: str = "") -> list[Found]:
        """Return what the files of a harness must not contain.

        Args:
            files: texts by path.
            allowed: texts that everybody may know, such as descriptions of tools and the operator's own.
        """
        known, public = f"{self._known}\n{normal(allowed)}", normal(allowed)
        found: list[Found] = []
        copied: dict[str, tuple[str, int, str]] = {}
        for path, text in sorted(files.items()):
            flat = _Flat(f"{path}\n{text}")  # a path is a text, too
            for literal, line in flat.within(self._held):
                if not _has(known, literal):
                    found.append(Found("literal", path, line, literal, self._held[literal]))
            for literal, line in flat.within(self._train):
                if len(tasks := self._train[literal]) == 1 and not _has(public, literal):
                    copied.setdefault(literal, (path, line, tasks[0]))
            found += self._quotations(path, text)
            found += [
                Found("canary", path, 0, "(not shown)", one.canary.place) for one in self._canaries.find(text)
            ]
        if len(copied) > MOST_TRAINING_LITERALS:
            path, number, task = next(iter(copied.values()))
            what = ", ".join(list(copied)[:5])
            of = (
                f"{len(copied)} values of single training tasks, {MOST_TRAINING_LITERALS} are allowed: {task}"
            )
            found.append(Found("training literals", path, number, what, of))
        return found

    def _quotations(self, path: str, text: str) -> Iterator[Found]:
        seen = set[str]()
        for number, part in [(0, text), *_paragraphs(text)]:
            messages = [Message(role="user", content=part), Message(role="assistant", content=part)]
            row = Row(self._name, "", "", messages, split_is_sure=True)
            for leak in filter(None, (index.find(row, SIMILAR) for index in self._indexes)):
                if leak.task not in seen:
                    seen.add(leak.task)
                    yield Found("quotation", path, number, part[:80], f"the {leak.split} task {leak.task}")


def literals(task: Task, reference: Reference | None) -> set[str]:
    """Return the values of a task that can identify it: of its prompt, its reference calls and its answer."""
    found = set(_values(task.prompt))
    if reference is not None:
        for value in [*(call.arguments for call in reference.calls), reference.answer]:
            for leaf in _leaves(value):
                found |= set(_values(leaf))
                if len(leaf) <= LONGEST and _names_something(leaf):
                    found.add(normal(leaf))
    return {one for one in found if len(one) >= FEWEST and not _PLAIN_NUMBER.fullmatch(one)}


def normal(text: str) -> str:
    """Return a text without differences of case and white space."""
    return " ".join(text.casefold().split())


def _literals(benchmark: Benchmark, split: str) -> tuple[dict[str, list[str]], str]:
    """Return the tasks of a split by their literals, and all texts of the split as one."""
    tasks: defaultdict[str, list[str]] = defaultdict(list)
    texts: list[str] = []
    try:
        for task in benchmark.tasks(split):
            reference = benchmark.reference(task.id)
            for literal in literals(task, reference):
                tasks[literal].append(task.id)
            texts += [task.prompt, task.system]
            if reference is not None:
                texts += [leaf for call in reference.calls for leaf in _leaves(call.arguments)]
                texts.append(reference.answer)
    except UnknownNameError:
        return {}, ""  # it has no such split
    return dict(tasks), normal("\n".join(texts))


def _values(text: str) -> Iterator[str]:
    for found in _VALUE.finditer(text):
        yield normal(found[0].strip(_EDGE))
    for quoted in _QUOTED.finditer(text):
        words = normal((quoted[1] or quoted[2]).strip(_EDGE))
        if " " in words:
            yield words


def _leaves(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for inner in value.values():
            yield from _leaves(inner)
    elif isinstance(value, (list, tuple)):
        for inner in value:
            yield from _leaves(inner)
    elif isinstance(value, str):
        yield value
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        yield json.dumps(value)


class _Flat:
    """A text as one normalised line, so that a value which is broken into two lines is found."""

    def __init__(self, text: str) -> None:
        lines = [normal(line) for line in text.splitlines()]
        self._text = " ".join(lines)
        self._starts = list(accumulate((len(line) + 1 for line in lines), initial=0))

    def within(self, among: Iterable[str]) -> Iterator[tuple[str, int]]:
        """Yield the literals that are there as whole words, with the line; the text's first line is 0."""
        for literal in among:
            if literal in self._text and (place := _place(self._text, literal)) is not None:
                yield literal, bisect_right(self._starts, place) - 1


def _names_something(value: str) -> bool:
    """Return whether a value is a name or a sentence rather than a word of the language.

    Values with a digit count anyway: `_VALUE` has them.
    """
    words = value.split()
    if len(words) == 1:
        return len(value) > 5 and re.search(r"\w[-_.]\w", value) is not None
    return len(words) > 4 or sum(word[0].isupper() for word in words) > 1


def _has(text: str, literal: str) -> bool:
    return literal in text and _place(text, literal) is not None


def _place(text: str, literal: str) -> int | None:
    found = re.search(rf"(?<!\w){re.escape(literal)}(?!\w)", text)
    return found.start() if found else None


def _paragraphs(text: str) -> Sequence[tuple[int, str]]:
    """Return the paragraphs and the lines of a text, with the numbers of their first lines."""
    lines = text.splitlines()
    found = [(number, line) for number, line in enumerate(lines, 1) if line.strip()]
    start: int | None = None
    for number, line in enumerate([*lines, ""], 1):
        if line.strip():
            start = start or number
        elif start is not None:
            if number - start > 1:
                found.append((start, "\n".join(lines[start - 1 : number - 1])))
            start = None
    return found
