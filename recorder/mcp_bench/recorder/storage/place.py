"""A place for copies of runs: a URL, and what lies below it.

Each run has a folder with pieces, named by their SHA-256, and a manifest that lists the run's files and their
pieces. Pieces come first and the manifest last, so that an interrupted push leaves no run that looks whole,
and the next one goes on where it stopped. Whoever can write to the place can remove a run or put an earlier
copy there, but no other bytes: a piece is only accepted with its hash, and rows only with the home's key.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from mcp_bench.recorder.atomic_file import write_atomic
from mcp_bench.recorder.errors import StorageError
from mcp_bench.servers.errors import MissingDependencyError, WrongUseError
from mcp_bench.servers.extras import install_extra

PIECE_BYTES = 32 << 20
MANIFEST = "manifest.json"
FORMAT = 1
_RUN = re.compile(r"run_[0-9a-z_]{1,64}")
MOST_MANIFEST_BYTES = 64 << 20

NAME = re.compile(r"(?=.{1,255}$)(logs/)?[A-Za-z0-9_][A-Za-z0-9_.-]*")
"""Matches the names of files that are copied. Hidden ones are of editors and file systems."""


def _last(path: object) -> str:
    """Return the last part of a path. Folders of an HTTP server end with a slash."""
    return str(path).rstrip("/").rpartition("/")[2]


def _name(name: str) -> str:
    if not NAME.fullmatch(name):
        raise ValueError("not the name of a file of a run")
    return name


Name = Annotated[str, AfterValidator(_name)]
Hash = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class Piece(BaseModel):
    """A part of a file, of `PIECE_BYTES` at most."""

    model_config = ConfigDict(extra="forbid", strict=True)

    sha256: Hash
    size: Annotated[int, Field(ge=0, le=PIECE_BYTES)]


class Manifest(BaseModel):
    """The files of a run, each as its pieces."""

    model_config = ConfigDict(extra="forbid", strict=True)

    format: int = FORMAT
    run: str
    key: str
    """Id of the key that the run was recorded with."""
    state: str
    """The tag of the run's last seal; empty if it has none."""
    files: dict[Name, list[Piece]]

    @property
    def size(self) -> int:
        return sum(piece.size for pieces in self.files.values() for piece in pieces)


class Place:
    """Shared storage at a URL, such as `s3://bucket/runs` or a folder."""

    def __init__(self, url: str) -> None:
        """Connect to a URL. Logins are those of its library: environment and configuration files.

        Raises:
            MissingDependencyError: fsspec, or the package of this kind of URL, is not installed.
            WrongUseError: there is no such kind of URL.
        """
        try:
            from fsspec.core import url_to_fs
            from fsspec.implementations.local import LocalFileSystem
        except ModuleNotFoundError as error:
            raise MissingDependencyError(
                f"push and pull need the Python package fsspec: {install_extra('storage')}"
            ) from error
        self.url = url.rstrip("/")
        try:
            fs, root = url_to_fs(self.url)
        except ImportError as error:
            raise MissingDependencyError(f"{url}: {error}") from error
        except ValueError as error:
            raise WrongUseError(f"{url!r} is no URL that fsspec knows: {error}") from error
        self._fs: Any = fs
        self._root = str(root).rstrip("/")
        self._is_local = isinstance(fs, LocalFileSystem)

    def runs(self) -> list[str]:
        """Return the ids of the runs here that were pushed completely."""
        with self._errors("list"):
            if not self._fs.exists(self._root):
                return []
            found = [_last(path) for path in self._fs.ls(self._root, detail=False)]
            return sorted(
                run for run in found if _RUN.fullmatch(run) and self._fs.exists(self._path(run, MANIFEST))
            )

    def manifest(self, run: str) -> Manifest | None:
        """Return the manifest of a run, or None if it was not pushed completely.

        Raises:
            StorageError: it is not a manifest of this run.
        """
        if not _RUN.fullmatch(run):
            raise StorageError(f"{run!r} is not the id of a run")
        path = self._path(run, MANIFEST)
        with self._errors("read"):
            if not self._fs.exists(path):
                return None
            with self._fs.open(path, "rb") as file:
                text = file.read(MOST_MANIFEST_BYTES)
        try:
            found = Manifest.model_validate_json(text)
        except ValidationError as error:
            raise StorageError(f"{self.url}/{run}/{MANIFEST} is not a manifest: {error}") from error
        if found.run != run or found.format != FORMAT:
            raise StorageError(f"{self.url}/{run}/{MANIFEST} is of another run, or of a newer mcp-bench")
        return found

    def put_manifest(self, manifest: Manifest) -> None:
        """Store a manifest, when all pieces are there."""
        self._put(self._path(manifest.run, MANIFEST), manifest.model_dump_json().encode())

    def sizes(self, run: str) -> dict[str, int]:
        """Return the pieces of a run that are here, with their sizes in bytes."""
        folder = self._path(run, "pieces")
        with self._errors("list"):
            self._fs.invalidate_cache()
            if not self._fs.exists(folder):
                return {}
            listed = self._fs.ls(folder, detail=True)
        return {_last(one["name"]): int(one["size"] or 0) for one in listed}

    def put_piece(self, run: str, piece: Piece, data: bytes) -> None:
        self._put(self._path(run, f"pieces/{piece.sha256}"), data)

    def piece(self, run: str, piece: Piece) -> bytes:
        """Return the bytes of a piece.

        Raises:
            StorageError: it is missing, or has other bytes.
        """
        with self._errors("read"), self._fs.open(self._path(run, f"pieces/{piece.sha256}"), "rb") as file:
            data: bytes = file.read(piece.size + 1)
        if len(data) != piece.size or sha256(data).hexdigest() != piece.sha256:
            raise StorageError(
                f"{self.url}/{run}/pieces/{piece.sha256} has other bytes than were pushed. Delete it, and "
                "push the run again from where it was recorded"
            )
        return data

    def _put(self, path: str, data: bytes) -> None:
        with self._errors("write"):
            if self._is_local:  # it has grades: for the user only, as in the home
                file = Path(path)
                for folder in reversed(file.parents):
                    folder.mkdir(mode=0o700, exist_ok=True)
                write_atomic(file, data, 0o600)
                return
            try:
                self._fs.pipe_file(path, data)
            except FileNotFoundError:
                self._make_folders(path)
                self._fs.pipe_file(path, data)

    def _make_folders(self, path: str) -> None:
        """Make the folders between the URL and a file, for storage that has any. A bucket is never made."""
        folder = self._root
        for name in path.removeprefix(f"{self._root}/").split("/")[:-1]:
            folder = f"{folder}/{name}"
            with suppress(FileExistsError):
                self._fs.mkdir(folder, create_parents=False)

    def _path(self, run: str, name: str) -> str:
        return f"{self._root}/{run}/{name}"

    @contextmanager
    def _errors(self, what: str) -> Iterator[None]:
        """Raise StorageError instead of the many errors of storage libraries."""
        try:
            yield
        except StorageError:
            raise
        except Exception as error:
            text = str(error).strip().splitlines()
            raise StorageError(
                f"cannot {what} at {self.url}: {text[0] if text else type(error).__name__}"
            ) from error
