"""Detection of rows that reveal held-out tasks of the benchmarks that they name."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from mcp_bench.recorder.leakage.held_out import held_out
from mcp_bench.recorder.leakage.split_index import SIMILAR, Leak, Row, SplitIndex
from mcp_bench.servers.contracts import Benchmark
from mcp_bench.servers.errors import BenchError, NoSecretError, UnknownNameError
from mcp_bench.servers.registry import load


class LeakCheck:
    """Compares rows with splits of the benchmarks that they name. A benchmark is loaded on first use."""

    def __init__(
        self, splits: Sequence[str], *, threshold: float = SIMILAR, benchmarks: Sequence[str] = ()
    ) -> None:
        """Prepare a check.

        Args:
            splits: The held-out splits.
            threshold: Similarity from which two texts are near duplicates.
            benchmarks: Compared with every row, in addition to the benchmark that the row names.
        """
        self.splits = tuple(splits)
        self._threshold = threshold
        self._always = tuple(benchmarks)
        self._indexes: dict[tuple[str, str], SplitIndex] = {}
        self._benchmarks: dict[str, Benchmark] = {}
        self._true_split = lru_cache(maxsize=1 << 16)(self._split_of)
        self._there: set[str] = set()
        self._missing: dict[str, UnknownNameError] = {}
        self.unchecked: dict[str, str] = {}
        """By the name of a benchmark: why rows could not be compared with it."""

    def find(self, row: Row) -> Leak | None:
        """Return the first leak of a row. The most certain kinds come first.

        Raises:
            BenchError: a benchmark in `benchmarks` cannot be used.
        """
        if row.split in self.splits:
            self._there.add(row.split)
            return Leak("split", row.benchmark, row.split, row.task, 1.0)
        for benchmark in dict.fromkeys((row.benchmark, *self._always)):
            for split in self.splits:
                index = self._index(benchmark, split)
                if index is not None and (found := index.find(row, self._threshold)):
                    return found
        if row.split_is_sure or row.benchmark not in self.compared:
            return None
        true = self._true_split(row.benchmark, row.task)
        return Leak("task", row.benchmark, true, row.task, 1.0) if true in self.splits and true else None

    @property
    def compared(self) -> list[str]:
        """Names of the benchmarks that rows were compared with."""
        return sorted({name for name, _ in self._indexes})

    def require_splits(self) -> None:
        """Refuse a split that a benchmark was compared with and none has: its name may be misspelt.

        Raises:
            UnknownNameError: there is such a split.
        """
        for split, error in self._missing.items():
            if split not in self._there:
                raise error

    def _index(self, benchmark: str, split: str) -> SplitIndex | None:
        key = benchmark, split
        if key in self._indexes:
            return self._indexes[key]
        if benchmark in self.unchecked and benchmark not in self._always:
            return None
        try:
            loaded = self._loaded(benchmark)
            self._indexes[key] = SplitIndex(held_out(loaded, split))
            self._there.add(split)
        except UnknownNameError as error:
            if benchmark in self._benchmarks:  # it has no such split, so nothing can leak
                self._missing[split] = error
                self._indexes[key] = SplitIndex.empty(benchmark, split)
                return self._indexes[key]
            self._unusable(benchmark, error)
        except NoSecretError:  # no task of the split exists, so nothing can leak
            self._there.add(split)
            self._indexes[key] = SplitIndex.empty(benchmark, split)
        except BenchError as error:
            self._unusable(benchmark, error)
        return self._indexes.get(key)

    def _unusable(self, benchmark: str, error: BenchError) -> None:
        if benchmark in self._always:
            raise error
        self.unchecked[benchmark] = str(error)

    def _loaded(self, name: str) -> Benchmark:
        if name not in self._benchmarks:
            self._benchmarks[name] = load("benchmark", name)
        return self._benchmarks[name]

    def _split_of(self, benchmark: str, task: str) -> str | None:
        """Return a task's split according to the benchmark, which can have more tasks than it lists."""
        try:
            return self._loaded(benchmark).task(task).split
        except Exception:  # there is no such task, and how a benchmark's code says so is its own
            return None
