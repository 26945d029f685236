"""Curate: choose recordings by split and grade, and write them as training rows, with a manifest."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from mcp_bench.recorder.assemble import trajectory
from mcp_bench.recorder.errors import StorageError
from mcp_bench.recorder.formats import Format
from mcp_bench.recorder.reader import RunReader, StoredEpisode, run_paths
from mcp_bench.recorder.records import now_us
from mcp_bench.servers.contracts import ALL_SPLITS
from mcp_bench.servers.errors import BenchError, UnknownNameError, WrongUseError


class NothingToExportError(BenchError):
    """No recording passed the rules; the text says which rule dropped how many."""


@dataclass(frozen=True)
class Selection:
    """The rules, in the order in which they are applied. Empty tuples take everything."""

    runs: tuple[str, ...] = ()
    agents: tuple[str, ...] = ()
    benchmarks: tuple[str, ...] = ()
    splits: tuple[str, ...] = ("train",)
    min_partial: float = 0.5
    strict: bool = False

    def __post_init__(self) -> None:
        if not 0 <= self.min_partial <= 1:  # not a number, too: nothing would be below it
            raise WrongUseError(f"the least partial score is {self.min_partial}: it must lie in 0 to 1")

    def verdict(self, episode: StoredEpisode) -> str:
        """Return `exported`, or the name of the first rule that drops the episode."""
        if self.agents and episode.agent not in self.agents:
            return "other_agent"
        if self.benchmarks and episode.benchmark not in self.benchmarks:
            return "other_benchmark"
        if ALL_SPLITS not in self.splits and episode.split not in self.splits:
            return "other_split"
        if episode.invalid is not None:
            return "invalid"
        if episode.partial is None:
            return "ungraded"
        if episode.partial < self.min_partial:
            return "below_threshold"
        if self.strict and not episode.strict:
            return "not_strict"
        return "exported"


RULES = {
    "other_agent": "by another agent",
    "other_benchmark": "of another benchmark",
    "other_split": "of another split",
    "invalid": "invalid",
    "ungraded": "without a grade",
    "below_threshold": "below the partial score asked for",
    "not_strict": "not strictly solved",
}
"""The rules that drop an episode, in words, in the order in which they are applied."""


def export(form: Format, out: Path, selection: Selection, *, force: bool = False) -> dict[str, Any]:
    """Write the chosen episodes to `out` and a manifest to `out` + `.manifest.json`.

    Both files appear whole or not at all. Returns the manifest; its `counts` are the funnel from
    `seen` to `exported`.

    Raises:
        WrongUseError: a file is in the way and `force` is not given, or `out` is `-`.
        UnknownNameError: a run, agent, benchmark or split that no recording has.
        NothingToExportError: every recording was dropped; no file is written.
        StorageError: the files cannot be written.
    """
    if str(out) == "-":
        raise WrongUseError("--out - would not be standard output: name a file; the manifest goes beside it")
    manifest_path = out.with_name(out.name + ".manifest.json")
    for path in (out, manifest_path):
        if path.exists() and not force:
            raise WrongUseError(f"{path} exists already: choose another --out, or overwrite it with --force")
    paths = run_paths(selection.runs)
    _check_names(paths, selection)
    counts: Counter[str] = Counter(seen=0, **dict.fromkeys(RULES, 0), exported=0)
    episodes: list[str] = []
    runs: dict[str, dict[str, str]] = {}
    digest = hashlib.sha256()
    with _writing(out), _replacing(out) as temporary, _replacing(manifest_path) as temporary_manifest:
        with temporary.open("xb") as file:
            for reader, episode in _chosen(paths, selection, counts):
                line = json.dumps(form.row(trajectory(reader, episode)), ensure_ascii=False, allow_nan=False)
                data = line.encode("utf-8") + b"\n"
                file.write(data)
                digest.update(data)
                episodes.append(episode.id)
                runs.setdefault(episode.run, _source(episode))
            file.flush()
            os.fsync(file.fileno())
        if not episodes:
            raise NothingToExportError(_nothing(counts, selection))
        manifest = {
            "tool": "mcp-bench-kit",
            "tool_version": version("mcp-bench-kit"),
            "created_us": now_us(),
            "format": form.name,
            "data": out.name,
            "sha256": digest.hexdigest(),
            "selection": asdict(selection),
            "counts": dict(counts),
            "runs": runs,
            "episodes": episodes,
        }
        # it is moved into place before the data: data that is there always has its manifest
        temporary_manifest.write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")
    return manifest


def _chosen(
    paths: list[Path], selection: Selection, counts: Counter[str]
) -> Iterator[tuple[RunReader, StoredEpisode]]:
    for path in paths:
        with RunReader(path) as reader:
            for episode in reader.episodes():
                verdict = selection.verdict(episode)
                counts["seen"] += 1
                counts[verdict] += 1
                if verdict == "exported":
                    yield reader, episode


def _source(episode: StoredEpisode) -> dict[str, str]:
    return {
        "benchmark": episode.benchmark,
        "benchmark_version": episode.benchmark_version,
        "grader_version": episode.grader_version or "",
        "agent": episode.agent,
        "agent_version": episode.agent_version,
    }


def _check_names(paths: list[Path], selection: Selection) -> None:
    agents: set[str] = set()
    benchmarks: set[str] = set()
    splits = {"train", ALL_SPLITS}
    for path in paths:
        with RunReader(path) as reader:
            summary = reader.summary()
            if summary is not None:
                agents.add(summary.agent)
                benchmarks.add(summary.benchmark)
                splits |= reader.splits()
    if not agents:
        return
    for kind, asked, known in (
        ("agent", selection.agents, agents),
        ("benchmark", selection.benchmarks, benchmarks),
        ("split", selection.splits, splits),
    ):
        for name in asked:
            if name not in known:
                raise UnknownNameError(kind, name, known)


def _nothing(counts: Counter[str], selection: Selection) -> str:
    if not counts["seen"]:
        return "nothing to export: there are no recordings yet. Make some with `mcp-bench record`"
    dropped = ", ".join(f"{counts[rule]} {words}" for rule, words in RULES.items() if counts[rule])
    asked = f"split {'/'.join(selection.splits)}, partial >= {selection.min_partial:g}"
    strict = ", strict" if selection.strict else ""
    return f"nothing to export: of {counts['seen']} episodes, {dropped} (asked for: {asked}{strict})"


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
