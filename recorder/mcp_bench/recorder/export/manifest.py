"""The manifest beside exported data, and the file beside it that names the episodes that were left out."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

from mcp_bench.recorder.curation.candidate import Candidate
from mcp_bench.recorder.curation.pipeline import Curation
from mcp_bench.recorder.errors import NothingToExportError
from mcp_bench.recorder.files.replacement import Replacement
from mcp_bench.recorder.paths import is_there
from mcp_bench.recorder.verify.damage import undamaged
from mcp_bench.servers.errors import WrongUseError


def manifest_path(out: Path) -> Path:
    return out.with_name(f"{out.name}.manifest.json")


def left_out_path(out: Path) -> Path:
    return out.with_name(f"{out.name}.left-out.json")


def chosen_episodes(curation: Curation) -> list[Candidate]:
    """Return the episodes that the curation chooses.

    Raises:
        UnknownNameError: no recording has a run, agent, model, benchmark, domain or split of that name.
        NothingToExportError: every recording was dropped.
    """
    selection = curation.selection
    chosen = curation.choose(undamaged(selection.runs, tags=selection.run_tags))
    if not chosen:
        raise NothingToExportError(_nothing_to_export(curation))
    return chosen


def refuse_to_overwrite(paths: Iterable[Path], *, force: bool) -> None:
    """Check that an export overwrites no file, unless `force` is set.

    Raises:
        WrongUseError: one of `paths` exists, or that cannot be seen.
    """
    for path in paths:
        if not force and is_there(path):
            raise WrongUseError(f"{path} already exists: choose another --out, or overwrite it with --force")


def manifest_of(
    out: Path,
    curation: Curation,
    *,
    command: str,
    form: str,
    data: Mapping[str, Any],
    contents: Mapping[str, Any],
) -> dict[str, Any]:
    """Return the manifest of an export.

    Args:
        out: the file of the data.
        curation: what chose the episodes.
        command: the command line that the user ran.
        form: name of the format.
        data: facts about the files.
        contents: facts about the episodes in them.
    """
    return {
        "tool": "mcp-bench-kit",
        "tool_version": version("mcp-bench-kit"),
        "command": command,
        "format": form,
        "data": out.name,
        **data,
        "selection": _selection_document(curation),
        "funnel": curation.funnel(),
        **curation.guard.facts(),
        **contents,
        "rules": {rule: words for rule, words in curation.words().items() if curation.dropped.get(rule)},
        "left_out": left_out_path(out).name if curation.left_out else None,
    }


def put_in_place(
    replacement: Replacement,
    out: Path,
    manifest: Mapping[str, Any],
    curation: Curation,
    *,
    further: Sequence[Path] = (),
) -> None:
    """Write the manifest and the file of what was left out, and move all files into place.

    The manifest and `further` come before the data, so data always has its manifest.
    """
    left_out = left_out_path(out)
    if curation.left_out:
        replacement.beside(left_out).write_text(json.dumps(curation.left_out) + "\n", encoding="utf-8")
    path = manifest_path(out)
    replacement.beside(path).write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")
    replacement.commit(first=[path, *further])
    if not curation.left_out:
        left_out.unlink(missing_ok=True)


def _selection_document(curation: Curation) -> dict[str, Any]:
    """Return the selection, with the hash of its tokenizer."""
    selection = asdict(curation.selection)
    if curation.selection.tokenizer is not None:
        selection["tokenizer"] = {
            "path": str(curation.selection.tokenizer),
            "sha256": curation.tokenizer_sha256,
        }
    return selection


def _nothing_to_export(curation: Curation) -> str:
    """Return why no episode is left."""
    if not curation.rows_in:
        return "nothing to export: there are no recordings yet. Record some with `mcp-bench record`"
    words = curation.words()
    dropped = ", ".join(f"{count} {words[rule]}" for rule, count in curation.dropped.items() if count)
    return f"nothing to export: of {curation.rows_in} episodes, {dropped}"
