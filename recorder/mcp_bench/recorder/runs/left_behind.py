"""What a killed writer has left beside the databases of its run: a journal, and parts."""

from __future__ import annotations

import logging
import os
from contextlib import closing
from pathlib import Path

from mcp_bench.recorder.errors import RunLockedError, StorageError, database_errors
from mcp_bench.recorder.runs.lock import LOCK, is_being_written, take_lock
from mcp_bench.recorder.runs.parts import take_in_all
from mcp_bench.recorder.runs.run_folder import PARTS, RECORDINGS, RunFolder, left_parts
from mcp_bench.recorder.store import schema
from mcp_bench.recorder.store.database import applied_migrations, open_reader
from mcp_bench.recorder.store.journal import has_entries
from mcp_bench.recorder.store.keys import OtherKeyError
from mcp_bench.recorder.store.recording import Recording
from mcp_bench.recorder.store.signatures import run_is_sealed

_log = logging.getLogger(__name__)


def take_in_left(path: Path) -> None:
    """Add to a run what a killed writer has left: its journal, and the parts whose processes have ended.

    What cannot be added stays, with a warning. A run that is sealed, or that is being written, is left alone.
    """
    _take_in_parts(path)
    take_in_journal(path)


def take_in_journal(path: Path) -> None:
    """Commit the journal of a killed writer to the database.

    A journal whose writer is running is left alone, and so is one that cannot be committed here, or that was
    put beside a run that is sealed.
    """
    if not has_entries(path) or _is_sealed(path):
        return
    try:
        lock = take_lock(path / LOCK)
    except RunLockedError:
        return
    except StorageError as error:
        _log.warning("the last moments of run %s are missing: %s", path.name, error)
        return
    try:
        Recording(path / RECORDINGS).close()
    except OtherKeyError as error:
        _log.warning("the last moments of run %s are missing: %s", path.name, error)
    finally:
        os.close(lock)


def _take_in_parts(path: Path) -> None:
    if not (path / PARTS).is_dir() or is_being_written(path):
        return
    try:
        if not _is_sealed(path):
            with RunFolder.completing(path) as run:
                take_in_all(run, wait=False)
        elif left_parts(path):
            _log.warning(
                "run %s may lack episodes: %s was put beside it, or could not be taken in when it ended",
                path.name,
                path / PARTS,
            )
    except RunLockedError as error:
        _log.warning("run %s lacks its last episodes: %s", path.name, error)
    except StorageError as error:
        _log.warning("episodes of run %s are missing: %s", path.name, error)


def _is_sealed(path: Path) -> bool:
    file = path / RECORDINGS
    if not file.exists():
        return False
    with closing(open_reader(file, schema.recordings)) as db, database_errors(file):
        return bool(applied_migrations(db, schema.recordings)) and run_is_sealed(db)
