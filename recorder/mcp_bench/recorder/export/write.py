"""Write the selected recordings as training data, with a manifest."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mcp_bench.recorder.curation.pipeline import Curation
from mcp_bench.recorder.errors import NothingToExportError
from mcp_bench.recorder.export.card import NAME as CARD
from mcp_bench.recorder.export.card import card
from mcp_bench.recorder.export.manifest import (
    chosen_episodes,
    left_out_path,
    manifest_of,
    manifest_path,
    put_in_place,
    refuse_to_overwrite,
)
from mcp_bench.recorder.export.rows import Rows
from mcp_bench.recorder.export.summary import Summary
from mcp_bench.recorder.files.hashed_file import HashedFile
from mcp_bench.recorder.files.layout import Layout, layout
from mcp_bench.recorder.files.replacement import Replacement, new_folder, writing
from mcp_bench.recorder.files.writing import row_encoder, row_writer
from mcp_bench.recorder.leakage.split_index import Leak
from mcp_bench.recorder.runs.reader import StoredEpisode
from mcp_bench.servers.errors import WrongUseError


@dataclass(frozen=True)
class Extras:
    """Additions to an export. `command` is the command line that the user ran.

    Raises:
        WrongUseError: there is a license, and no card to name it in.
    """

    card: bool = False
    license_id: str | None = None
    command: str = ""

    def __post_init__(self) -> None:
        if self.license_id is not None and not self.card:
            raise WrongUseError("--license has no effect without --card or --push: it is named in the card")


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
    """Write the episodes that the curation chooses, and a manifest, and return the manifest.

    The folder of `out` is created if it does not exist. All files appear complete or not at all. The same
    store and selection give the same bytes. The `funnel` of the manifest has the number of episodes in,
    dropped by each rule, and out. Its `left_out` is the file beside it that names those that were dropped, by
    run and rule; None if there are none.

    Args:
        rows: The kind of rows.
        out: File of the data. The manifest is written beside it, with `.manifest.json` after the name.
        curation: Chooses the episodes.
        compress: `gzip` or `zstd`. By default the ending of `out` decides.
        shard_size: Rows in a file, to write several.
        force: Whether to overwrite existing files.
        extras: Further files and facts.

    Raises:
        WrongUseError: a file exists and `force` is not set, or `out` is `-`; a cohort is too large; the
            compression is unknown or does not fit the name; the format has no columns, which Parquet needs;
            several files are requested for rows whose number is not known in advance.
        UnknownNameError: no recording has a run, agent, model, benchmark, domain or split of that name.
        LeakError: a row is, or resembles, a held-out task. No file is written.
        NothingToExportError: every recording was dropped. No file is written.
        MissingDependencyError: a package that Parquet or zstd needs is not installed.
        StorageError: the files cannot be written.
    """
    where = _place_of(rows, out, compress, shard_size)
    own = [where.out, manifest_path(where.out), left_out_path(where.out)]
    if extras.card:
        own.append(where.folder / CARD)
    refuse_to_overwrite([*own, *_parts(where)], force=force)
    chosen = chosen_episodes(curation)
    count = rows.count(chosen)
    if count is None and shard_size is not None:
        raise WrongUseError(
            "--shard-size cannot be used with --pairs, --steps or --step-weight, whose number of rows is"
            " known at the end only: write one file"
        )
    files = where.files(count or 0)
    summary = Summary()
    encode = row_encoder(rows.columns, parquet=where.is_parquet)

    def note(episode: StoredEpisode, leak: Leak | None) -> None:
        curation.guard.note(episode, leak)
        summary.add(episode)

    with writing(where.out), new_folder(where.folder), Replacement() as replacement:
        further: list[Path] = []

        def beside_data(name: str) -> Path:
            path = where.folder / name
            further.append(path)
            return replacement.beside(path)

        with contextlib.closing(rows.rows(curation, chosen, note, encode, beside_data)) as made:
            written = [_write(rows, where, replacement.beside(file), made) for file in files]
        curation.guard.check()
        for file, facts in zip(files, written, strict=True):
            facts["name"] = file.name
        total = sum(facts["rows"] for facts in written)
        if not total:
            raise NothingToExportError(
                f"nothing to export: {len(chosen)} episodes have no {rows.name}: {rows.why_none()}"
            )
        manifest = manifest_of(
            where.out,
            curation,
            command=extras.command,
            form=rows.name,
            data={"sha256": _whole(written), "rows": total, "files": written},
            contents={
                **rows.facts(),
                "counts": summary.counts(),
                "runs": summary.runs,
                "episodes": summary.episodes,
            },
        )
        texts = rows.companions(where, files)
        if extras.card:
            texts[CARD] = card(manifest, where, curation.words(), license_id=extras.license_id)
        for name, text in texts.items():
            replacement.beside(where.folder / name).write_text(text, encoding="utf-8")
        refuse_to_overwrite([*own, *_parts(where)], force=force)  # another export may have ended meanwhile
        put_in_place(replacement, where.out, manifest, curation, further=further)
        _remove_others(where, files)
    return manifest


def _place_of(rows: Rows, out: Path, compress: str | None, shard_size: int | None) -> Layout:
    """Return the files that an export will have.

    Raises:
        WrongUseError: `out` is `-`; the compression is unknown or does not fit the name; the format has no
            columns, which Parquet needs.
    """
    if str(out) == "-":
        raise WrongUseError(
            "--out - does not mean standard output: name a file, the manifest is written beside it"
        )
    where = layout(out, compress, shard_size)
    if where.is_parquet and not rows.columns:
        raise WrongUseError(
            f"the format {rows.name} declares no `columns`, whose types Parquet needs. Write JSON "
            f"lines instead: --out {where.out.with_suffix('.jsonl')}"
        )
    return where


def _parts(where: Layout) -> list[Path]:
    return [path for path in where.folder.glob("*") if where.is_shard(path.name)]


def _write(rows: Rows, where: Layout, path: Path, made: Iterator[Any]) -> dict[str, Any]:
    """Write the next rows to a new file, at most `shard_size`, and return its entry in the manifest."""
    count = 0
    with HashedFile(path) as file:
        writer = row_writer(file, rows.columns, parquet=where.is_parquet, compression=where.compression)
        with contextlib.closing(writer):
            for row in itertools.islice(made, where.shard_size):
                writer.write(row)
                count += 1
        return {"name": "", "rows": count, "bytes": file.size, "sha256": file.sha256}


def _whole(written: list[dict[str, Any]]) -> str:
    """Return the hash of the file, or of the hashes of several files."""
    hashes = [str(facts["sha256"]) for facts in written]
    return hashes[0] if len(hashes) == 1 else hashlib.sha256("".join(hashes).encode()).hexdigest()


def _remove_others(where: Layout, files: Sequence[Path]) -> None:
    """Remove other parts of an overwritten data set, which readers would mistake for new ones."""
    written = {file.name for file in files}
    for path in where.folder.glob("*"):
        if path.name not in written and where.is_data(path.name):
            path.unlink()
