"""Where base models are: in a folder each, in `bases` of the cache, renamed into place when complete."""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mcp_bench.recorder.paths import cache_dir
from mcp_bench.servers.errors import BenchError, UnknownNameError, WrongUseError

ORIGIN = "origin.json"
"""File in a base's folder: where it is from, its licence, and the hashes or the revision. Written last."""
NAME = re.compile(r"(?!.*--)[A-Za-z0-9][A-Za-z0-9._-]*(/[A-Za-z0-9][A-Za-z0-9._-]*)?")
"""Names of bases. The Hub, too, has no `--`, which stands for the slash in the name of a base's folder."""


def find_base(name: str) -> Path | None:
    """Return the folder of a fetched base model, or None. Looks on this disk only.

    Args:
        name: a known name (`smollm2-135m`), a Hub name (`org/model`), or the name given to a GGUF file.
    """
    if not NAME.fullmatch(name):
        return None
    folder = folder_of(name)
    return folder if (folder / ORIGIN).is_file() else None


def located(name: str) -> str:
    """Return the folder that a name stands for, as text: an existing path (absolute), or a fetched base.

    Any other name is returned unchanged, such as one on the Hub. `~/` is the user's home: in a recipe and
    after `--set KEY=`, no shell replaces it.

    Raises:
        WrongUseError: it is a path that cannot be reached.
    """
    if name.startswith("~/"):
        name = os.path.expanduser(name)  # noqa: PTH111 - without a home, it stays as it is
    if is_path(name):
        return str(Path(name).absolute())
    return str(find_base(name) or name)


def is_path(name: str) -> bool:
    """Return whether a file or folder of this name exists.

    Raises:
        WrongUseError: that cannot be known: a folder may not be entered, or the name is too long.
    """
    try:
        return Path(name).exists()
    except OSError as error:
        raise WrongUseError(f"cannot read {name}: {error.strerror}") from error


def bases_dir() -> Path:
    """Return the folder that holds the bases."""
    return cache_dir() / "bases"


def origin(folder: Path) -> dict[str, Any]:
    """Return what a base's origin file says, or nothing for another folder."""
    file = folder / ORIGIN
    return dict(json.loads(file.read_bytes())) if file.is_file() else {}


def stored() -> list[dict[str, Any]]:
    """Return what is known of each fetched base: the content of its origin file, `path` and `bytes`."""
    rows = []
    for file in sorted(bases_dir().glob(f"*/{ORIGIN}")):
        if file.parent.name.startswith("."):
            continue  # not in place yet
        size = sum(path.stat().st_size for path in file.parent.rglob("*") if path.is_file())
        rows.append({**origin(file.parent), "path": str(file.parent), "bytes": size})
    return rows


def remove(name: str, on_wait: Callable[[], None] = lambda: None) -> int:
    """Delete a fetched base, or what an interrupted download left of it, and return the freed bytes.

    Args:
        name: the base's name.
        on_wait: called if another process fetches it: what that has made is deleted then.

    Raises:
        UnknownNameError: it is not there.
        BenchError: it cannot be deleted.
    """
    _there(name)  # else a lock would be made for any name
    freed = 0
    with _locked(name, on_wait):
        for folder in _there(name):
            freed += sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
            try:
                (folder / ORIGIN).unlink(missing_ok=True)  # from here on it is not found
                shutil.rmtree(folder)
            except OSError as error:
                raise BenchError(f"cannot delete {folder}: {error.strerror or error}") from error
    return freed


def _there(name: str) -> list[Path]:
    """Return the folders of a base: the fetched one, and that of an interrupted download.

    Raises:
        UnknownNameError: there is none.
    """
    found = [folder for folder in (find_base(name), unfinished(name)) if folder is not None]
    if not found:
        raise UnknownNameError("fetched base", name, [row["name"] for row in stored()])
    return found


def unfinished(name: str) -> Path | None:
    """Return the folder of a download that was interrupted, or None."""
    beside = _beside(folder_of(name))
    return beside if beside.is_dir() else None


@contextmanager
def placed(
    name: str, *, keep: tuple[type[BaseException], ...], on_wait: Callable[[], None]
) -> Iterator[Path]:
    """Give a folder to fill for a base, and rename it into place at the end.

    One process at a time does this for a name. If another one was faster, the folder that is given is the
    one in place, with its origin file.

    Args:
        name: the base's name.
        keep: errors after which the folder stays, to be continued. After any other it is deleted.
        on_wait: called if another process has the name.

    Raises:
        BenchError: nothing can be written there.
    """
    folder = folder_of(name)
    beside = _beside(folder)
    with _locked(name, on_wait):
        if find_base(name) is not None:
            yield folder
            return
        try:
            beside.mkdir(exist_ok=True)
            yield beside
            shutil.rmtree(folder, ignore_errors=True)  # of a removal that was killed
            beside.rename(folder)
        except keep:
            if not any(beside.iterdir()):
                beside.rmdir()
            raise
        except OSError as error:
            shutil.rmtree(beside, ignore_errors=True)
            raise _unwritable(error) from error
        except BaseException:
            shutil.rmtree(beside, ignore_errors=True)
            raise


def write_origin(folder: Path, facts: dict[str, Any]) -> None:
    """Write the file that makes a folder a base, and give all files their usual permissions."""
    umask = os.umask(0)
    os.umask(umask)
    for path in folder.rglob("*"):
        if path.is_file():
            path.chmod(0o666 & ~umask)  # safetensors makes 0600
    (folder / ORIGIN).write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")


def enough_space(needed: int) -> None:
    """Check the free space on the disk of the bases.

    Raises:
        BenchError: there is less than `needed` bytes.
    """
    above = bases_dir()
    while not above.exists():
        above = above.parent
    free = shutil.disk_usage(above).free
    if free < needed:
        raise BenchError(
            f"{above} has {free / 1e9:.1f} GB free, and {needed / 1e9:.1f} GB are needed: make room, or set "
            "MCP_BENCH_CACHE to a folder on a larger disk"
        )


def folder_of(name: str) -> Path:
    """Return where a base is, or would be."""
    return bases_dir() / name.replace("/", "--")


def _beside(folder: Path) -> Path:
    return folder.with_name(f".{folder.name}.new")


@contextmanager
def _locked(name: str, on_wait: Callable[[], None]) -> Iterator[None]:
    """Hold the name's lock. The kernel releases it when its process dies, however it dies."""
    if not NAME.fullmatch(name):
        raise WrongUseError(f"invalid name {name!r}: use letters, digits, '.', '_' and '-', but no '--'")
    try:
        bases_dir().mkdir(parents=True, exist_ok=True)
        lock = (bases_dir() / f".{folder_of(name).name}.lock").open("a")
    except OSError as error:
        raise _unwritable(error) from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            on_wait()
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _unwritable(error: OSError) -> BenchError:
    return BenchError(
        f"cannot write {error.filename or bases_dir()}: {error.strerror or error}. Base models are stored in "
        "$MCP_BENCH_CACHE, by default `cache` in $MCP_BENCH_HOME: set one of them to a folder with room that "
        "you can write to"
    )
