"""Resume a run, unless it was changed: seals on what is there now would hide what was there before."""

from __future__ import annotations

from mcp_bench.recorder.errors import StorageError
from mcp_bench.recorder.runs.find import run_paths
from mcp_bench.recorder.runs.lock import is_being_written
from mcp_bench.recorder.runs.parts import resume_run
from mcp_bench.recorder.runs.run_folder import GRADES, RECORDINGS, RunFolder
from mcp_bench.recorder.store.database import finish_left
from mcp_bench.recorder.store.keys import key_for
from mcp_bench.recorder.verify.damage import nothing_in
from mcp_bench.recorder.verify.verify import verify


class ChangedRunError(StorageError):
    """A run was changed after it was recorded."""


def resume(run: str) -> RunFolder:
    """Open the folder of an interrupted run, as `resume_run` does, after a check of its rows.

    `run` is its id or a unique prefix of it.

    A row that somebody removed while the run was not being recorded would otherwise count as never stored,
    and a failed episode that is gone would be recorded again.

    Raises:
        ChangedRunError: rows, tables or the place in the ledger are not as they were stored.
        StorageError, UnknownNameError, RunLockedError: as for `resume_run`.
    """
    (path,) = run_paths([run])
    if not is_being_written(path):
        for name in (GRADES, RECORDINGS):
            finish_left(path / name)
    if problem := nothing_in(path):
        raise problem
    checked = verify(path, key_for(path))
    if checked.state == "unreadable":  # a writer may be able to read what nobody has checked
        raise StorageError(checked.detail)
    if checked.state == "changed":
        found = checked.findings[0]
        what = ": ".join(part for part in (f"{found.place.table} {found.place.key}", found.detail) if part)
        raise ChangedRunError(
            f"{path.name} is not resumed, since it was changed ({what}): see `mcp-bench verify {path.name}`. "
            "Restore its folder from a copy, or record a new run"
        )
    return resume_run(path.name)
