"""Write the recordings that a curation chose as training rows, with a manifest."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, Self

from mcp_bench.recorder.curation.pipeline import Curation
from mcp_bench.recorder.errors import StorageError
from mcp_bench.recorder.export.card import NAME as CARD
from mcp_bench.recorder.export.card import card
from mcp_bench.recorder.export.rows import Rows
from mcp_bench.recorder.export.summary import Exported
from mcp_bench.recorder.files.hashed_file import HashedFile
from mcp_bench.recorder.files.layout import Layout, layout
from mcp_bench.recorder.files.writing import row_encoder, row_writer
from mcp_bench.recorder.leakage.split_index import Leak
from mcp_bench.recorder.store.reader import StoredEpisode, run_paths
from mcp_bench.servers.errors import BenchError, WrongUseError


class NothingToExportError(BenchError):
    """No recording passed the rules; the text says which rule dropped how many."""


@dataclass(frozen=True)
class Extras:
    """What goes with an export beside its manifest. `command` is how the user asked for it."""

    card: bool = False
    license_id: str | None = None
    command: str = ""


def export(
    rows: Rows,
    out: Path,
    curation: Curation,
    *,
    compress: str | None = None,
    shard_size: int | None = None,
    force: bool = False,
    extras: Extras = Extras(),
) -> dict[str, Any]:
    """Write what the curation chooses to `out`, or to parts of `shard_size` rows each, and a manifest beside
    it, whose name is that of the data and `.manifest.json`.

    All files appear whole or not at all, and the same store and selection give the same bytes. Returns
    the manifest; its `funnel` says how many episodes came in, what each rule dropped, how many went out.

    Raises:
        WrongUseError: a file is in the way and `force` is not given, or `out` is `-`; a cohort is too
            large; the compression is unknown or does not fit the name; Parquet is asked of a format without
            columns; rows whose number only making them
            tells are to be written in parts.
        UnknownNameError: a run, agent, model, benchmark, domain or split that no recording has.
        LeakError: a row is, or is like, a held-out task; no file is written.
        NothingToExportError: every recording was dropped; no file is written.
        MissingDependencyError: what Parquet or zstd needs is not installed.
        StorageError: the files cannot be written.
    """
    if str(out) == "-":
        raise WrongUseError("--out - would not be standard output: name a file; the manifest goes beside it")
    where = layout(out, compress, shard_size)
    if where.is_parquet and not rows.columns:
        raise WrongUseError(
            f"the format {rows.name} says nothing of its `columns`, whose types Parquet needs: write JSON "
            f"lines, --out {where.out.with_suffix('.jsonl')}"
        )
    manifest_path = where.out.with_name(where.out.name + ".manifest.json")
    card_path = where.folder / CARD
    _in_the_way([where.out, manifest_path, *([card_path] if extras.card else [])], where, force=force)
    chosen = curation.choose(run_paths(curation.selection.runs))
    if not chosen:
        raise NothingToExportError(_nothing(curation))
    count = rows.count(chosen)
    if count is None and shard_size is not None:
        raise WrongUseError(f"--shard-size does not go with {rows.name}: write one file")
    files = where.files(count or 0)
    exported = Exported()

    encode = row_encoder(rows.columns, parquet=where.is_parquet)

    def note(episode: StoredEpisode, leak: Leak | None) -> None:
        curation.guard.note(episode, leak)
        exported.add(episode)

    with _writing(where.out), _Replacement() as replacement:
        with contextlib.closing(rows.rows(curation, chosen, note, encode)) as made:
            written = [_write(rows, where, replacement.beside(file), made) for file in files]
        curation.guard.check()
        for file, facts in zip(files, written, strict=True):
            facts["name"] = file.name
        total = sum(facts["rows"] for facts in written)
        if not total:
            raise NothingToExportError(
                f"nothing to export: no {rows.name} in {len(chosen)} episodes: {rows.facts()}"
            )
        manifest = {
            "tool": "mcp-bench-kit",
            "tool_version": version("mcp-bench-kit"),
            "command": extras.command,
            "format": rows.name,
            "data": where.out.name,
            "sha256": _whole(written),
            "rows": total,
            "files": written,
            "selection": _selection(curation),
            "funnel": curation.funnel(),
            **rows.facts(),
            "counts": exported.counts(),
            "runs": exported.runs,
            "episodes": exported.episodes,
        }
        beside = rows.companions(where, files)
        if extras.card:
            beside[CARD] = card(manifest, where, curation.words(), license_id=extras.license_id)
        for name, text in beside.items():
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


def _write(rows: Rows, where: Layout, path: Path, made: Iterator[Any]) -> dict[str, Any]:
    """Write the next rows to the new file at `path`, as many as go into one; return what the manifest says
    of it."""
    count = 0
    with HashedFile(path) as file:
        writer = row_writer(file, rows.columns, parquet=where.is_parquet, compression=where.compression)
        with contextlib.closing(writer):
            for row in itertools.islice(made, where.shard_size):
                writer.write(row)
                count += 1
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
