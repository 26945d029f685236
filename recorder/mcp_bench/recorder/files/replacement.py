"""Files that appear together, complete or not at all."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from secrets import token_hex
from typing import Self

from mcp_bench.recorder.errors import StorageError


class Replacement:
    """Temporary files that replace others together."""

    def __init__(self) -> None:
        self._temporary: dict[Path, Path] = {}
        self._made: list[Path] = []

    def beside(self, path: Path) -> Path:
        """Return a temporary path for the file that will replace `path`. Its folder is made, if need be."""
        if not path.parent.exists():
            path.parent.mkdir()
            self._made.append(path.parent)
        return self._temporary.setdefault(path, path.with_name(f".{path.name}.{token_hex(4)}.tmp"))

    def commit(self, first: Sequence[Path]) -> None:
        """Move all files into place, those in `first` before the others."""
        early = set(first)
        for path in [*first, *(path for path in self._temporary if path not in early)]:
            self._temporary[path].replace(path)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for temporary in self._temporary.values():
            with contextlib.suppress(OSError):
                temporary.unlink(missing_ok=True)
        for folder in self._made:
            with contextlib.suppress(OSError):  # not empty, if all went well
                folder.rmdir()


@contextlib.contextmanager
def new_folder(path: Path) -> Iterator[None]:
    """Create a folder and those above it; remove them again if nothing is written."""
    made = [folder for folder in (path, *path.parents) if not folder.exists()]
    path.mkdir(parents=True, exist_ok=True)
    try:
        yield
    except BaseException:
        with contextlib.suppress(OSError):  # somebody else uses it
            for folder in made:
                folder.rmdir()
        raise


@contextlib.contextmanager
def writing(path: Path) -> Iterator[None]:
    """Raise StorageError instead of errors of the file system."""
    try:
        yield
    except OSError as error:
        raise StorageError(f"cannot write {path}: {error.strerror or error}") from error
