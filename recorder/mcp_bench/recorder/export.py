"""Write the recordings that a curation chose as training rows, with a manifest."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import os
from collections.abc import Generator, Iterator, Sequence
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any, Self

from mcp_bench.recorder.containers.hashed_file import HashedFile
from mcp_bench.recorder.containers.layout import Layout, layout
from mcp_bench.recorder.containers.writing import row_writer
from mcp_bench.recorder.curation.candidate import Candidate
from mcp_bench.recorder.curation.pipeline import Curation
from mcp_bench.recorder.errors import StorageError
from mcp_bench.recorder.formats import Format, HasCompanions
from mcp_bench.recorder.reader import StoredEpisode, run_paths
from mcp_bench.servers.errors import BenchError, WrongUseError


class NothingToExportError(BenchError):
    """No recording passed the rules; the text says which rule dropped how many."""


def export(
    form: Format,
    out: Path,
    curation: Curation,
    *,
    compress: str | None = None,
    shard_size: int | None = None,
    force: bool = False,
) -> dict[str, Any]:
    """Write what the curation chooses to `out`, or to parts of `shard_size` rows each, and a manifest beside
    it, whose name is that of the data and `.manifest.json`.

    All files appear whole or not at all, and the same store and selection give the same bytes. Returns
    the manifest; its `funnel` says how many rows came in, what each rule dropped, how many went out.

    Raises:
        WrongUseError: a file is in the way and `force` is not given, or `out` is `-`; a cohort is too
            large; the compression is unknown or does not fit the name.
        UnknownNameError: a run, agent, model, benchmark, domain or split that no recording has.
        LeakError: a row is, or is like, a held-out task; no file is written.
        NothingToExportError: every recording was dropped; no file is written.
        MissingDependencyError: what Parquet or zstd needs is not installed.
        StorageError: the files cannot be written.
    """
    if str(out) == "-":
        raise WrongUseError("--out - would not be standard output: name a file; the manifest goes beside it")
    where = layout(out, compress, shard_size)
    manifest_path = where.out.with_name(where.out.name + ".manifest.json")
    _in_the_way([where.out, manifest_path], where, force=force)
    chosen = curation.choose(run_paths(curation.selection.runs))
    if not chosen:
        raise NothingToExportError(_nothing(curation))
    files = where.files(len(chosen))
    runs: dict[str, dict[str, str]] = {}
    with _writing(where.out), _Replacement() as replacement:
        with contextlib.closing(_rows(form, curation, chosen, runs)) as rows:
            written = [_write(form, where, replacement.beside(file), rows) for file in files]
        curation.guard.check()
        for file, facts in zip(files, written, strict=True):
            facts["name"] = file.name
        manifest = {
            "tool": "mcp-bench-kit",
            "tool_version": version("mcp-bench-kit"),
            "format": form.name,
            "data": where.out.name,
            "sha256": _whole(written),
            "files": written,
            "selection": _selection(curation),
            "funnel": curation.funnel(),
            "runs": runs,
            "episodes": [one.id for one in chosen],
        }
        companions = (
            form.companions(where.folder, where.stem, files) if isinstance(form, HasCompanions) else {}
        )
        for name, text in companions.items():
            replacement.beside(where.folder / name).write_text(text, encoding="utf-8")
        # it is moved into place before the data: data that is there always has its manifest
        last = replacement.beside(manifest_path)
        last.write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")
        replacement.commit(first=manifest_path)
        _remove_others(where, files)
    return manifest


def _in_the_way(paths: list[Path], where: Layout, *, force: bool) -> None:
    parts = [path for path in where.folder.glob("*") if where.is_shard(path.name)]
    for path in [*paths, *parts]:
        if path.exists() and not force:
            raise WrongUseError(f"{path} exists already: choose another --out, or overwrite it with --force")


def _rows(
    form: Format, curation: Curation, chosen: Sequence[Candidate], runs: dict[str, dict[str, str]]
) -> Generator[dict[str, Any]]:
    for _, episode, conversation in curation.read(chosen):
        curation.guard.look(episode, conversation)
        runs.setdefault(episode.run, _source(episode))
        yield form.row(conversation)


def _write(form: Format, where: Layout, path: Path, rows: Iterator[dict[str, Any]]) -> dict[str, Any]:
    """Write the next rows to the new file at `path`, as many as go into one; return what the manifest says
    of it."""
    count = 0
    with HashedFile(path) as file:
        columns = getattr(form, "columns", {})
        writer = row_writer(file, columns, parquet=where.is_parquet, compression=where.compression)
        for row in itertools.islice(rows, where.shard_size):
            writer.write(row)
            count += 1
        writer.close()
        return {"name": "", "rows": count, "bytes": file.size, "sha256": file.sha256}


def _whole(written: list[dict[str, Any]]) -> str:
    """Return the hash of the file; of several, the hash of their hashes."""
    hashes = [str(facts["sha256"]) for facts in written]
    return hashes[0] if len(hashes) == 1 else hashlib.sha256("".join(hashes).encode()).hexdigest()


def _remove_others(where: Layout, files: Sequence[Path]) -> None:
    """Remove what is left of an overwritten data set that had other parts: who reads them all would read
    both."""
    now = {file.name for file in files}
    for path in where.folder.glob("*"):
        if path.name not in now and (where.is_shard(path.name) or path == where.out):
            path.unlink()


def _selection(curation: Curation) -> dict[str, Any]:
    asked = asdict(curation.selection)
    if curation.selection.tokenizer is not None:
        asked["tokenizer"] = {
            "path": str(curation.selection.tokenizer),
            "sha256": curation.tokenizer_sha256,
        }
    return asked


def _source(episode: StoredEpisode) -> dict[str, str]:
    return {
        "benchmark": episode.benchmark,
        "benchmark_version": episode.benchmark_version,
        "grader_version": episode.grader_version or "",
        "agent": episode.agent,
        "agent_version": episode.agent_version,
    }


def _nothing(curation: Curation) -> str:
    if not curation.rows_in:
        return "nothing to export: there are no recordings yet. Make some with `mcp-bench record`"
    words = curation.words()
    dropped = ", ".join(f"{count} {words[rule]}" for rule, count in curation.dropped.items() if count)
    return f"nothing to export: of {curation.rows_in} episodes, {dropped}"


class _Replacement:
    """Files that are written beside others and take their places together."""

    def __init__(self) -> None:
        self._temporary: dict[Path, Path] = {}

    def beside(self, path: Path) -> Path:
        """Return a temporary path for what is to become `path`."""
        return self._temporary.setdefault(path, path.with_name(f".{path.name}.{os.getpid()}.tmp"))

    def commit(self, first: Path) -> None:
        for path in [first, *(path for path in self._temporary if path != first)]:
            self._temporary[path].replace(path)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for temporary in self._temporary.values():
            with contextlib.suppress(OSError):
                temporary.unlink(missing_ok=True)


@contextlib.contextmanager
def _writing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StorageError(f"cannot write {path}: {error.strerror or error}") from error
