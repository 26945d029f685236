"""Edits of a harness's folder: what is learned is added, and all else stays."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import yaml

from mcp_bench.bridge.harness.folder import Harness, read_harness
from mcp_bench.bridge.memory.tips import Tip
from mcp_bench.servers.errors import WrongUseError


@contextmanager
def writing(out: Path) -> Iterator[None]:
    """Raise WrongUseError instead of errors of the file system. `out` is what `--out` names, or is in it."""
    try:
        yield
    except OSError as error:
        raise WrongUseError(
            f"cannot write {out}: {error.strerror or error}. Choose --out in a folder that exists, has room "
            "and that you may write to"
        ) from error


def tip_file(tip: Tip) -> str:
    """Return the file of a tip: its frontmatter names what it rests on."""
    about = {"source": tip.source, "tasks": tip.tasks, "episodes": list(tip.episodes)}
    return f"---\n{yaml.safe_dump(about, sort_keys=False, width=1000)}---\n{tip.text}\n"


def with_tips(files: Mapping[str, str], tips: Sequence[Tip]) -> dict[str, str]:
    """Return a harness's files with some tips; one with the same name is replaced."""
    return {**files, **{f"memory/{tip.name}.md": tip_file(tip) for tip in tips}}


def files_of(folder: Path | None) -> dict[str, str]:
    """Return the files of a harness; none without a folder.

    Raises:
        WrongUseError: it cannot be read, or is malformed.
    """
    return {} if folder is None else dict(read_harness(folder).files)


def write_edited(files: Mapping[str, str], out: Path, hidden: Mapping[str, str] | None = None) -> Harness:
    """Check a harness and write its folder, whole or not at all.

    Args:
        files: its texts.
        out: the folder, which must not exist, or be empty.
        hidden: further files, whose names begin with a dot: no part of the harness.

    Raises:
        WrongUseError: the folder has files, cannot be written, or the harness breaks a limit.
    """
    refuse_existing(out)
    harness = Harness(out.resolve().name, dict(files))
    with writing(out):
        out.parent.mkdir(parents=True, exist_ok=True)
        made = Path(tempfile.mkdtemp(prefix=f".{out.name}-", dir=out.parent))
        try:
            for path, text in {**files, **(hidden or {})}.items():
                place = made / path
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_text(text, encoding="utf-8")
            made.chmod(0o755)
            os.replace(made, out)  # noqa: PTH105 - onto an empty folder, too
        except BaseException:
            shutil.rmtree(made, ignore_errors=True)
            raise
    return harness


def refuse_existing(out: Path, *, inside: bool = False) -> None:
    """Raise WrongUseError if a folder has files already, or could not be made, before anything is paid.

    Args:
        out: the folder.
        inside: new folders come into it. Otherwise a new one takes its place.
    """
    with writing(out):
        above = next(one for one in out.absolute().parents if one.exists())
        if not above.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
        if not os.access(above, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        exists = out.is_file() or (out.is_dir() and any(out.iterdir()))
        stays = out.is_symlink() or (out.is_dir() and (out.is_mount() or out.samefile(Path.cwd())))
    if exists:
        raise WrongUseError(
            f"{out} exists: an edit is a new folder, so that both can be compared. Name another"
        )
    if stays and not inside:
        raise WrongUseError(
            f"{out} is a link, a mount point or the working directory, and no new folder can take its place. "
            "Name another, such as one in it"
        )
