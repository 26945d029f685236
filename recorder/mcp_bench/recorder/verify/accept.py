"""Accept a copy of a run that is older than the last state in the ledger, as the operator's own decision.

A run that is restored from a backup looks like one whose later episodes somebody wanted to be forgotten.
Only the operator knows which it is. Accepting it is an entry of the ledger: it needs the home's key, names
the exact state of the copy, and takes nothing back. From then on the run counts as unchanged if it is in this
state, or in one that was recorded after it; `verify` and `report` say that it was accepted. Rows that are
not as they were stored cannot be accepted.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

from mcp_bench.recorder.errors import RunLockedError, StorageError
from mcp_bench.recorder.runs.lock import is_being_written
from mcp_bench.recorder.store.keys import Key, key_path, read_key
from mcp_bench.recorder.store.ledger import NAME, Ledger
from mcp_bench.recorder.utc import utc
from mcp_bench.recorder.verify.ledger_check import LedgerCheck
from mcp_bench.recorder.verify.verify import Verdict, verify
from mcp_bench.servers.errors import WrongUseError
from mcp_bench.servers.home import home

_ACCEPTABLE = ("rolled back", "unknown")


def to_accept(path: Path) -> Verdict:
    """Return the verdict on a copy that can be accepted.

    Raises:
        RunLockedError: it is being recorded.
        StorageError: its rows are not as they were stored, or this home does not have its key.
        WrongUseError: the ledger has nothing against it.
    """
    if is_being_written(path):
        raise RunLockedError(f"the run {path.name} is being recorded: accept it when it has ended")
    verdict = verify(path, _key(), _check())
    if verdict.ledger in _ACCEPTABLE and verdict.rows:  # not if it is empty
        return verdict
    if verdict.state in ("verified", "open"):
        raise WrongUseError(f"there is nothing to accept: {path.name} is as the ledger has it")
    raise StorageError(
        f"{path.name} cannot be accepted, only a whole earlier copy can: it is {verdict.state}. See "
        f"`mcp-bench verify {path.name}`"
    )


def accept(verdict: Verdict) -> Verdict:
    """Enter a copy in the ledger as accepted, and verify it again.

    Args:
        verdict: what `to_accept` returned. If the copy was exchanged meanwhile, it is not accepted.

    Raises:
        StorageError: the ledger cannot be written.
    """
    check = _check()
    Ledger(home() / NAME, _key()).enter(
        "accepted", verdict.run, check.state_to_accept(verdict.named, verdict.seal)
    )
    return verify(verdict.path, _key(), check)


def accepted_runs(runs: Collection[str]) -> dict[str, str]:
    """Return when the operator accepted a copy of a run, for those of `runs` of which that is true.

    Nothing is known without a ledger and its key; `verify` reports both.
    """
    try:
        if b'"accepted"' not in (home() / NAME).read_bytes():  # parsing a long ledger takes a while
            return {}
        check = _check()
    except (OSError, StorageError):
        return {}
    found = {run: entry for run in sorted(runs) if (entry := check.accepted(run)) is not None}
    return {run: f"{utc(entry.time_us)} UTC" for run, entry in found.items()}


def _check() -> LedgerCheck:
    return LedgerCheck(Ledger(home() / NAME, _key()))


def _key() -> Key:
    return read_key(key_path())


def with_accepted(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return report rows with `accepted_runs`: when the operator accepted a copy, by run."""
    rows = list(rows)
    found = accepted_runs({run for row in rows for run in row["runs"]})
    return [
        {**row, "accepted_runs": {run: found[run] for run in row["runs"] if run in found}} for row in rows
    ]
