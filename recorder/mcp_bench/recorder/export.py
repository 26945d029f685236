"""Write the recordings that a curation chose as training rows, with a manifest."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Iterator
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

from mcp_bench.recorder.curation.pipeline import Curation
from mcp_bench.recorder.errors import StorageError
from mcp_bench.recorder.formats import Format
from mcp_bench.recorder.reader import StoredEpisode, run_paths
from mcp_bench.servers.errors import BenchError, WrongUseError


class NothingToExportError(BenchError):
    """No recording passed the rules; the text says which rule dropped how many."""


def export(form: Format, out: Path, curation: Curation, *, force: bool = False) -> dict[str, Any]:
    """Write what the curation chooses to `out`, and a manifest to `out` + `.manifest.json`.

    Both files appear whole or not at all, and the same store and selection give the same bytes. Returns
    the manifest; its `funnel` says how many rows came in, what each rule dropped, how many went out.

    Raises:
        WrongUseError: a file is in the way and `force` is not given, or `out` is `-`; a cohort is too
            large.
        UnknownNameError: a run, agent, model, benchmark, domain or split that no recording has.
        NothingToExportError: every recording was dropped; no file is written.
        StorageError: the files cannot be written.
    """
    if str(out) == "-":
        raise WrongUseError("--out - would not be standard output: name a file; the manifest goes beside it")
    manifest_path = out.with_name(out.name + ".manifest.json")
    for path in (out, manifest_path):
        if path.exists() and not force:
            raise WrongUseError(f"{path} exists already: choose another --out, or overwrite it with --force")
    chosen = curation.choose(run_paths(curation.selection.runs))
    if not chosen:
        raise NothingToExportError(_nothing(curation))
    runs: dict[str, dict[str, str]] = {}
    digest = hashlib.sha256()
    with _writing(out), _replacing(out) as temporary, _replacing(manifest_path) as temporary_manifest:
        with temporary.open("xb") as file:
            for _, episode, conversation in curation.read(chosen):
                line = json.dumps(form.row(conversation), ensure_ascii=False, allow_nan=False)
                data = line.encode("utf-8") + b"\n"
                file.write(data)
                digest.update(data)
                runs.setdefault(episode.run, _source(episode))
            file.flush()
            os.fsync(file.fileno())
        manifest = {
            "tool": "mcp-bench-kit",
            "tool_version": version("mcp-bench-kit"),
            "format": form.name,
            "data": out.name,
            "sha256": digest.hexdigest(),
            "selection": _selection(curation),
            "funnel": curation.funnel(),
            "runs": runs,
            "episodes": [one.id for one in chosen],
        }
        # it is moved into place before the data: data that is there always has its manifest
        temporary_manifest.write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")
    return manifest


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


@contextlib.contextmanager
def _replacing(path: Path) -> Iterator[Path]:
    """Give a temporary path beside `path` and move it there if all went well."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        yield temporary
        temporary.replace(path)
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


@contextlib.contextmanager
def _writing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StorageError(f"cannot write {path}: {error.strerror or error}") from error
