"""Texts that an agent wrote for other agents, searched for what they must not contain.

Instructions, lessons and skills are made from tasks of `train` and measured on others. A text leaks if it
quotes a held-out prompt or solution, if it has a rare literal of a held-out task (an id, an address, an
amount, a name), or if it has a canary. And one with many literals of single training tasks is a copy of these
tasks, not a lesson. What a text does is not looked at: a leaked procedure is for test families to find.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from operator import itemgetter
from typing import Literal

from mcp_bench.recorder.leakage.held_out import held_out
from mcp_bench.recorder.leakage.literals import Flat, leaves, literals
from mcp_bench.recorder.leakage.split_index import SIMILAR, Row, SplitIndex
from mcp_bench.recorder.taint import Canaries, Canary
from mcp_bench.recorder.trajectory import Message
from mcp_bench.servers.contracts import Benchmark
from mcp_bench.servers.errors import UnknownNameError
from mcp_bench.servers.tagged import MOST_TASKS

Kind = Literal["literal", "quotation", "canary", "training literals"]

HELD_OUT = ("dev", "test")
RARE_SHARE = 0.02
"""Of the tasks of a split. What more of them have identifies no task."""
MOST_TRAINING_LITERALS = 12
"""Values of single training tasks in one harness. An example or two need some."""


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


def for_agents(found: Sequence[Found]) -> list[str]:
    """Return what an agent may read: which kinds were found.

    Neither the text nor the place nor the number of what is kept back: an agent could write down guesses,
    each in another number of files, and read here which of them are right.
    """
    kinds = {one.kind for one in found}
    texts: dict[Kind, str] = {
        "literal": "values of tasks that are kept back",
        "quotation": "quotations of tasks that are kept back",
        "canary": "texts that were planted to be found",
        "training literals": "copies of values of single training tasks: write what holds for all of them",
    }
    return [text for kind, text in texts.items() if kind in kinds]


class TextCheck:
    """Searches texts for the held-out tasks of a benchmark. Making one builds its tasks. Blocks."""

    def __init__(self, benchmark: Benchmark, canaries: Iterable[Canary] = ()) -> None:
        self._indexes: list[SplitIndex] = []
        self._name = benchmark.name
        self._canaries = Canaries(canaries)
        self._train, known = _literals(benchmark, "train", MOST_TASKS)  # it may be endless
        self._known = Flat(known)
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
        public = Flat(allowed)
        found: list[Found] = []
        copied: dict[str, tuple[str, int, str]] = {}
        for path, text in sorted(files.items()):
            flat = Flat(f"{path}\n{text}")  # a path is a text, too
            for literal, line in sorted(flat.within(self._held), key=itemgetter(1, 0)):
                if not (self._known.has(literal) or public.has(literal)):
                    found.append(Found("literal", path, line, literal, self._held[literal]))
            for literal, line in sorted(flat.within(self._train), key=itemgetter(1, 0)):
                if len(tasks := self._train[literal]) == 1 and not public.has(literal):
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


def _literals(benchmark: Benchmark, split: str, most: int | None = None) -> tuple[dict[str, list[str]], str]:
    """Return at most `most` tasks of a split by their literals, and all their texts as one."""
    tasks: defaultdict[str, list[str]] = defaultdict(list)
    texts: list[str] = []
    try:
        for task in islice(benchmark.tasks(split), most):
            reference = benchmark.reference(task.id)
            for literal in literals(task, reference):
                tasks[literal].append(task.id)
            texts += [task.prompt, task.system]
            if reference is not None:
                texts += [leaf for call in reference.calls for leaf in leaves(call.arguments)]
                texts.append(reference.answer)
    except UnknownNameError:
        return {}, ""  # it has no such split
    return dict(tasks), "\n".join(texts)


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
