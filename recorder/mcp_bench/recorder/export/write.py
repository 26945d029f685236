"""Write the selected recordings as training data, with a manifest."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from mcp_bench.recorder.curation.pipeline import Curation
from mcp_bench.recorder.errors import NothingToExportError
from mcp_bench.recorder.export.card import NAME as CARD
from mcp_bench.recorder.export.card import card
from mcp_bench.recorder.export.rows import Rows
from mcp_bench.recorder.export.summary import Summary
from mcp_bench.recorder.files.hashed_file import HashedFile
from mcp_bench.recorder.files.layout import Layout, layout
from mcp_bench.recorder.files.replacement import Replacement, new_folder, writing
from mcp_bench.recorder.files.writing import row_encoder, row_writer
from mcp_bench.recorder.leakage.split_index import Leak
from mcp_bench.recorder.runs.reader import StoredEpisode
from mcp_bench.recorder.verify.damage import undamaged
from mcp_bench.servers.errors import WrongUseError

LEFT_OUT = ".left-out.json"


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
    manifest_path = where.out.with_name(where.out.name + ".manifest.json")
    left_out_path = where.out.with_name(where.out.name + LEFT_OUT)
    card_path = where.folder / CARD
    own = [where.out, manifest_path, left_out_path, *([card_path] if extras.card else [])]
    refuse_to_overwrite([*own, *_parts(where)], force=force)
    selection = curation.selection
    chosen = curation.choose(undamaged(selection.runs, tags=selection.run_tags))
    if not chosen:
        raise NothingToExportError(nothing_to_export(curation))
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
        manifest = {
            "tool": "mcp-bench-kit",
            "tool_version": version("mcp-bench-kit"),
            "command": extras.command,
            "format": rows.name,
            "data": where.out.name,
            "sha256": _whole(written),
            "rows": total,
            "files": written,
            "selection": selection_document(curation),
            "funnel": curation.funnel(),
            **curation.guard.facts(),
            **rows.facts(),
            "counts": summary.counts(),
            "runs": summary.runs,
            "episodes": summary.episodes,
            **left_out_facts(curation, left_out_path),
        }
        beside = rows.companions(where, files)
        if curation.left_out:
            beside[left_out_path.name] = json.dumps(curation.left_out) + "\n"
        if extras.card:
            beside[CARD] = card(manifest, where, curation.words(), license_id=extras.license_id)
        for name, text in beside.items():
            replacement.beside(where.folder / name).write_text(text, encoding="utf-8")
        refuse_to_overwrite([*own, *_parts(where)], force=force)  # another export may have ended meanwhile
        # moved into place before the data, so data always has its manifest
        last = replacement.beside(manifest_path)
        last.write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")
        replacement.commit(first=[manifest_path, *further])
        _remove_others(where, files)
        if not curation.left_out:
            left_out_path.unlink(missing_ok=True)
    return manifest


def _parts(where: Layout) -> list[Path]:
    return [path for path in where.folder.glob("*") if where.is_shard(path.name)]


def refuse_to_overwrite(paths: Iterable[Path], *, force: bool) -> None:
    """Check that an export overwrites no file, unless `force` is set.

    Raises:
        WrongUseError: one of `paths` exists.
    """
    for path in paths:
        if path.exists() and not force:
            raise WrongUseError(f"{path} already exists: choose another --out, or overwrite it with --force")


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


def left_out_facts(curation: Curation, path: Path) -> dict[str, Any]:
    """Return for the manifest where the episodes that were left out are named, and each rule in words."""
    rules = {rule: words for rule, words in curation.words().items() if curation.dropped.get(rule)}
    return {"rules": rules, "left_out": path.name if curation.left_out else None}


def selection_document(curation: Curation) -> dict[str, Any]:
    """Return the selection for the manifest, with the hash of its tokenizer."""
    selection = asdict(curation.selection)
    if curation.selection.tokenizer is not None:
        selection["tokenizer"] = {
            "path": str(curation.selection.tokenizer),
            "sha256": curation.tokenizer_sha256,
        }
    return selection


def nothing_to_export(curation: Curation) -> str:
    """Return why no episode is left."""
    if not curation.rows_in:
        return "nothing to export: there are no recordings yet. Record some with `mcp-bench record`"
    words = curation.words()
    dropped = ", ".join(f"{count} {words[rule]}" for rule, count in curation.dropped.items() if count)
    return f"nothing to export: of {curation.rows_in} episodes, {dropped}"
