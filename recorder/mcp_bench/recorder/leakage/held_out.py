"""The tasks of a held-out split as hashes: enough to recognise a task, but not readable.

Building all tasks of a split takes seconds, so the hashes are cached in one file for each benchmark, version
and split. What a version does not name is not cached: the private split, which depends on a secret, and tasks
from files of the operator's.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from mcp_bench.recorder.leakage.similarity import Shingles, calls_text, shingles
from mcp_bench.recorder.paths import cache_dir
from mcp_bench.servers.contracts import Benchmark, BenchmarkDefaults, Reference, with_defaults
from mcp_bench.servers.errors import BenchError

PRIVATE = "private"
SCHEME = 1
"""Raised when the hashing of texts changes."""

BOILERPLATE_SHARE = 0.2
"""A shingle in more than this share of a split's texts is boilerplate: it identifies no task."""
BOILERPLATE_LEAST = 3
MOST_TASKS = 100_000
"""A split with more is taken for endless."""


@dataclass(frozen=True, slots=True)
class Texts:
    """One text of each task, as shingles without boilerplate, and the boilerplate itself."""

    shingles: list[Shingles]
    common: Shingles

    def own(self, text: Shingles) -> Shingles:
        """Return the shingles of another text without the boilerplate."""
        return np.setdiff1d(text, self.common, assume_unique=True) if len(self.common) else text


@dataclass(frozen=True, slots=True)
class HeldOut:
    """The tasks of a split. `prompts` and `solutions` are in the order of `tasks`.

    A solution is the text of the reference, empty if the task has none.
    """

    benchmark: str
    split: str
    tasks: list[str]
    exact: dict[str, str]
    """Task ids by the hash of the prompt."""
    prompts: Texts
    solutions: Texts


def held_out(benchmark: Benchmark, split: str) -> HeldOut:
    """Return a split, from the cache if possible. Blocks.

    Raises:
        UnknownNameError: the benchmark does not have the split.
        BenchError: its tasks cannot be built (for example the private split without its secret).
    """
    if split == PRIVATE or with_defaults(benchmark, BenchmarkDefaults).own_files:
        return _built(benchmark, split)
    file = _cache(benchmark, split)
    with contextlib.suppress(OSError, ValueError, LookupError, TypeError):
        return _parse(benchmark.name, split, json.loads(file.read_bytes()))
    found = _built(benchmark, split)
    _store(file, found)
    return found


def _built(benchmark: Benchmark, split: str) -> HeldOut:
    try:
        return build(benchmark, split)
    except BenchError:
        raise
    except Exception as error:  # raised by the benchmark's code
        what = f"{benchmark.name}: the tasks of the split {split} cannot be built"
        raise BenchError(f"{what}: {type(error).__name__}: {error}") from error


def prompt_hash(prompt: str) -> str:
    """Return a hash of a prompt. White space and case do not count."""
    return sha256(" ".join(prompt.lower().split()).encode()).hexdigest()


def solution_text(calls: Iterable[tuple[str, Any]], answer: str | None) -> str:
    """Return calls (a tool and its arguments each) and a final answer as one text."""
    return f"{calls_text(calls)}\n{answer or ''}"


def build(benchmark: Benchmark, split: str) -> HeldOut:
    """Return a split, from its tasks.

    Raises:
        UnknownNameError: the benchmark does not have the split.
        BenchError: its tasks cannot be built, or do not end.
        Exception: what the benchmark's code raises.
    """
    tasks: list[str] = []
    exact: dict[str, str] = {}
    prompts: list[Shingles] = []
    solutions: list[Shingles] = []
    for task in benchmark.tasks(split):
        if len(tasks) == MOST_TASKS:
            raise BenchError(
                f"{benchmark.name}: the split {split} has more than {MOST_TASKS:,} tasks, so it seems to be "
                "endless, and nothing can be compared with all of it: let `tasks` end for this split"
            )
        tasks.append(task.id)
        exact.setdefault(prompt_hash(task.prompt), task.id)
        prompts.append(shingles(task.prompt))
        solutions.append(shingles(_solution(benchmark.reference(task.id))))
    return HeldOut(
        benchmark.name, split, tasks, exact, _without_boilerplate(prompts), _without_boilerplate(solutions)
    )


def _solution(reference: Reference | None) -> str:
    if reference is None:
        return ""
    return solution_text(((call.name, call.arguments) for call in reference.calls), reference.answer)


def _without_boilerplate(texts: Sequence[Shingles]) -> Texts:
    counts = Counter(number for text in texts for number in text.tolist())
    many = max(BOILERPLATE_LEAST, BOILERPLATE_SHARE * len(texts))
    common = np.array(sorted(number for number, count in counts.items() if count > many), dtype=np.uint64)
    return Texts([np.setdiff1d(text, common, assume_unique=True) for text in texts], common)


def _cache(benchmark: Benchmark, split: str) -> Path:
    key = json.dumps([SCHEME, benchmark.name, benchmark.version, split])
    return cache_dir() / f"held-out-{sha256(key.encode()).hexdigest()[:24]}.json"


def _store(file: Path, found: HeldOut) -> None:
    document = {
        "tasks": found.tasks,
        "exact": found.exact,
        **{
            name: {"runs": [text.tolist() for text in texts.shingles], "common": texts.common.tolist()}
            for name, texts in (("prompts", found.prompts), ("solutions", found.solutions))
        },
    }
    temporary = file.with_name(f".{file.name}.{os.getpid()}")
    with contextlib.suppress(OSError):  # the cache only saves time
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        temporary.write_text(json.dumps(document), encoding="utf-8")
        temporary.replace(file)


def _parse(benchmark: str, split: str, document: dict[str, Any]) -> HeldOut:
    prompts, solutions = (
        Texts(
            [np.array(text, dtype=np.uint64) for text in document[name]["runs"]],
            np.array(document[name]["common"], dtype=np.uint64),
        )
        for name in ("prompts", "solutions")
    )
    return HeldOut(benchmark, split, document["tasks"], document["exact"], prompts, solutions)
