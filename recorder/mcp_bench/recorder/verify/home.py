"""Verify the runs of a home, and that none is missing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from mcp_bench.recorder.paths import home, runs_dir
from mcp_bench.recorder.store.keys import Key, key_path, read_key
from mcp_bench.recorder.store.ledger import NAME, Ledger
from mcp_bench.recorder.store.reader import run_paths
from mcp_bench.recorder.verify.ledger_check import LedgerCheck
from mcp_bench.recorder.verify.verify import Verdict, verify, verify_ledger


def verify_home(runs: Sequence[str] = (), key_file: Path | None = None) -> Iterator[Verdict]:
    """Yield a verdict for each of `runs`, or of all runs, and for those that the ledger misses.

    Args:
        key_file: key that the runs were recorded with, if they come from another home.

    Raises:
        UnknownNameError: one of `runs` neither exists nor is missing.
        StorageError: the key cannot be read.
    """
    own = read_key(key_path()) if key_path().exists() else None
    key: Key | None = read_key(key_file) if key_file else own
    ledger = LedgerCheck(None if key is None else Ledger(home() / NAME, key), own=key == own)
    gone = {run for run, _ in ledger.missing({path.name for path in runs_dir().glob("*")})}
    if present := [run for run in runs if run not in gone]:
        paths = run_paths(present)
    else:
        paths = [] if runs else run_paths()
    for path in paths:
        yield verify(path, key, ledger)
    yield from verify_ledger(ledger, home(), runs)
