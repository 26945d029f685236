"""The runs of a matrix: those that `mcp-bench record --config` started, with a cell in their settings."""

from __future__ import annotations

from dataclasses import dataclass

from mcp_bench.recorder.errors import StorageError
from mcp_bench.recorder.run_settings import CellOfRun
from mcp_bench.recorder.runs.find import check_no_copy, run_paths
from mcp_bench.recorder.runs.reader import RunReader
from mcp_bench.servers.errors import UnknownNameError


@dataclass(frozen=True, slots=True)
class MatrixRun:
    """A run of a matrix."""

    id: str
    cell: CellOfRun
    planned: int
    done: int
    cost: float
    """US dollars: of its agents, as they reported them, and of the models of roles."""

    @property
    def complete(self) -> bool:
        return self.done >= self.planned


def matrix_runs(matrix: str | None, unreadable: list[StorageError]) -> list[MatrixRun]:
    """Return the runs of a matrix, oldest first.

    Args:
        matrix: Its name; None: of all matrices.
        unreadable: Collects the errors of runs that cannot be read, or are copies of others.
    """
    runs = list[MatrixRun]()
    for path in run_paths():
        try:
            with RunReader(path) as reader:
                found = _read(reader, matrix)
                if found is not None:
                    check_no_copy(path, found.id)
        except StorageError as error:
            unreadable.append(error)
            continue
        if found is not None:
            runs.append(found)
    return runs


def runs_of_matrix(matrix: str) -> list[str]:
    """Return the ids of the newest runs of all cells.

    Raises:
        UnknownNameError: there is no such matrix.
    """
    found = matrix_runs(None, [])
    # a changed cell has a new run, which takes the place of the old one
    newest = {run.cell.cell: run.id for run in found if run.cell.name == matrix}
    if not newest:
        raise UnknownNameError("matrix", matrix, {run.cell.name for run in found})
    return list(newest.values())


def _read(reader: RunReader, matrix: str | None) -> MatrixRun | None:
    cell = reader.settings().matrix
    if cell is None or matrix not in (None, cell.name):
        return None
    summary = reader.summary()
    assert summary is not None  # noqa: S101 - a run with settings has one
    return MatrixRun(summary.id, cell, summary.planned, summary.done, reader.cost())
