"""Folders of runs: a fresh one by default, one process at a time in each, and the results of its steps."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from shlex import quote
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from mcp_bench.bridge.model_endpoint.url import is_http_url, without_secrets
from mcp_bench.recorder.atomic_file import write_atomic
from mcp_bench.servers.errors import BenchError, WrongUseError
from mcp_bench.servers.home import home
from mcp_bench.servers.left_folders import HeldError, alone_in

Settings = TypeVar("Settings")
Outcome = dict[str, Any]
"""The result of a step, as it is stored."""

DISK_FULL = ("No space left on device", "Disk quota exceeded", "file write failed", "unexpected pos ")
"""Parts of the messages of Python and safetensors, and (the last two) of torch."""


def fresh(kind: str, before: str = "") -> Path:
    """Make a new folder in `$MCP_BENCH_HOME/KIND`, and return it. Its name is the time, after `before`.

    Raises:
        WrongUseError: it cannot be made.
    """
    parent, name = home() / kind, f"{before}{datetime.now(UTC):%Y%m%d-%H%M%S}"
    for number in count(1):
        path = parent / (name if number == 1 else f"{name}-{number}")
        try:
            make_folder(path, new=True)
        except FileExistsError:  # another command began in the same second
            continue
        return path
    raise AssertionError


def new_folder(out: Path | None, kind: str) -> Path:
    """Make the folder `out`, or by default a new one in `$MCP_BENCH_HOME/KIND`.

    Raises:
        WrongUseError: the folder is not empty, or cannot be made.
    """
    path = (out or fresh(kind)).absolute()
    refuse_used(path)
    make_folder(path)
    return path


def make_folder(path: Path, *, new: bool = False) -> None:
    """Make a folder, with those above it, unless it is there.

    Args:
        path: the folder.
        new: whether it must not be there.

    Raises:
        FileExistsError: it is there, and must not be.
        WrongUseError: it cannot be made.
    """
    try:
        path.mkdir(parents=True, exist_ok=not new)
    except OSError as error:
        if new and isinstance(error, FileExistsError):
            raise
        raise WrongUseError(
            f"cannot make the folder {path}: {error.strerror}. Choose one that you may write to"
        ) from error


def refuse_used(out: Path | None) -> None:
    """Refuse a folder that is not empty.

    Raises:
        WrongUseError: it is not.
    """
    if out is not None and out.is_dir() and any(out.iterdir()):
        path = out.absolute()
        raise WrongUseError(
            f"{path} is not empty: resume with --resume {quote(str(path))}, or choose another folder"
        )


def store_settings(path: Path, settings: object) -> None:
    """Store settings. Only this user can read the file if a URL in it has a login or a key."""
    text = TypeAdapter(type(settings)).dump_json(settings, indent=1).decode() + "\n"
    urls = filter(is_http_url, re.findall(r"https?://[^\s\"]+", text))
    private = any(url != without_secrets(url) for url in urls)
    write_atomic(path, text, 0o600 if private else None)


def stored_settings(path: Path, kind: type[Settings], noun: str) -> Settings:
    """Return what a folder was made for.

    Args:
        path: the file in the folder.
        kind: what the file holds.
        noun: what the folder is of, such as "loop".

    Raises:
        WrongUseError: the file is missing, or cannot be read.
    """
    if not path.is_file():
        raise WrongUseError(f"no {noun} in {path.parent}: {path.name} is missing")
    try:
        return TypeAdapter(kind).validate_json(path.read_bytes())
    except OSError as error:
        raise WrongUseError(f"cannot read {path}: {error.strerror}") from error
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"]))
        said = f"{where}: {first['msg']}" if where else first["msg"]
    except WrongUseError as error:
        said = str(error)
    raise WrongUseError(f"cannot read {path}: {said}. It was changed, or written by another version")


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Keep other processes from working in a folder, and say where a disk is full.

    Raises:
        BenchError: another process works in it, or the work failed for lack of space.
    """
    try:
        with alone_in(path):
            yield
    except HeldError as error:
        raise BenchError(f"another process works in {path}: wait until it ends") from error
    except Exception as error:
        if any(part in str(error) for part in DISK_FULL):
            text = f"no space is left on the disk of {path}: free some, then resume. Complete steps are kept"
            raise BenchError(text) from error
        raise


def once(path: Path, work: Callable[[], Outcome]) -> Outcome:
    """Return the result stored in `path`, or do the work and store its result."""
    found = read_step(path)
    if found is None:
        found = work()
        store_step(path, found)
    return found


def store_step(path: Path, result: Outcome) -> None:
    """Store the result of a step, in place of an earlier one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, json.dumps(result, indent=1) + "\n")


def read_step(path: Path) -> Outcome | None:
    """Return the content of a result file, or None if it does not exist."""
    if not path.is_file():
        return None
    content: Outcome = json.loads(path.read_text(encoding="utf-8"))
    return content
