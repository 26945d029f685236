"""Verify the runs of a home, and that none is missing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from mcp_bench.recorder.paths import runs_dir
from mcp_bench.recorder.runs.find import run_paths
from mcp_bench.recorder.runs.names import run_id
from mcp_bench.recorder.runs.run_folder import RECORDINGS
from mcp_bench.recorder.store.keys import Key, key_path, read_key
from mcp_bench.recorder.store.ledger import NAME, Ledger
from mcp_bench.recorder.verify.ledger_check import LedgerCheck
from mcp_bench.recorder.verify.verify import Verdict, verify, verify_ledger
from mcp_bench.servers.errors import UnknownNameError
from mcp_bench.servers.home import home


def verify_home(
    runs: Sequence[str] = (), key_file: Path | None = None, *, tags: Sequence[str] = ()
) -> Iterator[Verdict]:
    """Yield a verdict for each of `runs`, or of all runs, and for those that the ledger misses.

    Args:
        runs: ids, or unique prefixes of them.
        tags: only runs with all of these tags.
        key_file: key that the runs were recorded with, if they come from another home.

    Raises:
        UnknownNameError: one of `runs` neither exists nor is missing.
        StorageError: the key cannot be read.
    """
    own = read_key(key_path()) if key_path().exists() else None
    key: Key | None = read_key(key_file) if key_file else own
    ledger = LedgerCheck(None if key is None else Ledger(home() / NAME, key), own=key == own)
    present = {path.parent.name for path in runs_dir().glob(f"*/{RECORDINGS}")}
    gone = {run for run, _ in ledger.missing(present)}  # `verify_ledger` names them
    known = gone | {path.name for path in run_paths()} if runs else gone
    wanted = {run_id(run, known) for run in runs}
    paths = [] if wanted and wanted <= gone else run_paths(sorted(wanted - gone), tags=tags)
    for path in paths:
        if path.name in gone:
            continue
        verdict = verify(path, key, ledger)
        if not path.exists() and ledger.is_removed(path.name):  # by another process, meanwhile
            if wanted:
                raise UnknownNameError("run", path.name, ())
            continue
        yield verdict
    if not tags:  # a run that is gone has no tags any more
        yield from verify_ledger(ledger, home(), wanted)
