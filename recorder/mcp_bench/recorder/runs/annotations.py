"""What the operator writes about a run: tags and a note, in a file beside its recordings.

A run is sealed and signed. Its annotations are neither: they are the operator's own words, can change at any
time, and no figure depends on them. They are in `annotations.json` in the run's folder, so they are copied,
moved and deleted with it.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mcp_bench.recorder.atomic_file import write_atomic
from mcp_bench.recorder.errors import StorageError
from mcp_bench.servers.errors import WrongUseError

NAME = "annotations.json"
LONGEST_TAG = 64
LONGEST_NOTE = 10_000
_MOST_BYTES = 1 << 20
_ABOUT = "Written with mcp-bench annotate. Not signed, and no figure depends on it."
_TAG = re.compile(rf"[^\W_][\w.:/=+@-]{{0,{LONGEST_TAG - 1}}}")
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Annotations:
    """The operator's words about one run. `tags` are sorted."""

    tags: tuple[str, ...] = ()
    note: str = ""


def check_annotations(tags: Iterable[str], note: str | None) -> None:
    """Check new tags and a new note.

    Raises:
        WrongUseError: a tag has other characters than a tag can have, or a text is too long.
    """
    for tag in tags:
        if not _TAG.fullmatch(tag):
            raise WrongUseError(
                f"{tag!r} cannot be a run's tag: use up to {LONGEST_TAG} letters, digits and "
                ". : / = + @ _ -, the first one a letter or digit"
            )
    if note is not None and len(note) > LONGEST_NOTE:
        raise WrongUseError(f"the note has {len(note)} characters: {LONGEST_NOTE} at most")
    try:
        (note or "").encode()
    except UnicodeEncodeError as error:
        raise WrongUseError("the note is not UTF-8") from error


def read_annotations(run: Path) -> Annotations:
    """Return the annotations of the run in a folder.

    Raises:
        StorageError: the file cannot be read, or is not one of annotations.
    """
    path = run / NAME
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        with open(file, "rb") as opened:  # noqa: PTH123 - it is open already, and is not a link
            text = opened.read(_MOST_BYTES + 1)
    except FileNotFoundError:
        return Annotations()
    except OSError as error:
        raise StorageError(f"cannot read {path}: {error.strerror}") from error
    try:
        found: Any = json.loads(text) if len(text) <= _MOST_BYTES else None
        tags, note = found["tags"], found["note"]
        if not (isinstance(note, str) and all(isinstance(tag, str) for tag in tags)):
            raise TypeError
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise StorageError(
            f"{path} is not a file of annotations: repair it, or remove it and annotate the run again"
        ) from error
    return Annotations(tuple(sorted(set(tags))), note)


def known_annotations(run: Path) -> Annotations:
    """Return the annotations of a run; none, with a warning, if their file is damaged."""
    try:
        return read_annotations(run)
    except StorageError as error:
        _log.warning("%s", str(error))  # not the error: its traceback would keep readers open
        return Annotations()


def annotate(
    run: Path, *, add: Iterable[str] = (), remove: Iterable[str] = (), note: str | None = None
) -> Annotations:
    """Change the annotations of the run in a folder, also while it is being recorded.

    Args:
        run: the folder.
        add: tags that it gets.
        remove: tags that it loses; one that it does not have is no error.
        note: the new note; empty for none, None to keep the old one.

    Returns:
        All annotations of the run.

    Raises:
        WrongUseError: as for `check_annotations`.
        StorageError: the file cannot be written, or the one that is there cannot be read.
    """
    added = list(add)
    check_annotations(added, note)
    with _lock(run):
        before = read_annotations(run)
        tags = tuple(sorted((set(before.tags) | set(added)) - set(remove)))
        now = Annotations(tags, before.note if note is None else note)
        if now == before:
            return now
        try:
            if now == Annotations():
                (run / NAME).unlink(missing_ok=True)
            else:
                text = {"about": _ABOUT, "tags": now.tags, "note": now.note}
                write_atomic(run / NAME, json.dumps(text, indent=1, ensure_ascii=False) + "\n")
        except OSError as error:
            raise StorageError(f"cannot write {run / NAME}: {error.strerror}") from error
    return now


@contextmanager
def _lock(run: Path) -> Iterator[None]:
    """Let one process at a time change the annotations. The run's own lock belongs to its recorder."""
    try:
        folder = os.open(run, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise StorageError(f"cannot open {run}: {error.strerror}") from error
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)
