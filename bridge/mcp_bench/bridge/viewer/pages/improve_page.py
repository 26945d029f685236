"""The page of an improvement: the story of its generations, and what came of them."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from mcp_bench.bridge.viewer.recordings import Library, Run
from mcp_bench.bridge.viewer.training.facts import read_text
from mcp_bench.bridge.viewer.training.folders import Found, TrainingFiles, manifest_of
from mcp_bench.bridge.viewer.training.improvements import (
    KINDS,
    RECORDED,
    Arm,
    Generation,
    Improvement,
    Recording,
    edits_or_why_not,
)
from mcp_bench.bridge.viewer.training.text_changes import Change
from mcp_bench.recorder.errors import StorageError
from mcp_bench.recorder.runs.reader import StoredEpisode
from mcp_bench.recorder.scores.scores import summarise


@dataclass(frozen=True, slots=True)
class Chapter:
    """A generation, with what its part of the page links to."""

    one: Generation
    changes: list[Change]
    unreadable: str
    """Why the changes of its harness cannot be shown."""
    asked: StoredEpisode | None
    """The episode of the feedback agent, if it is in this home."""
    gate: list[tuple[Recording, Recording]]
    """Recordings of the best one before it and of its own, on the same tasks, if both are in this home."""
    confirm: list[tuple[Recording, Recording]]
    training: Found | None
    data: Found | None


@dataclass(slots=True)
class Measured:
    """An arm, with what its recordings are worth."""

    arm: Arm
    runs: dict[str, list[tuple[Recording, Run | None]]]
    test: dict[str, Any] = field(default_factory=dict)
    """Scores on test, as `summarise` returns them; empty if it was not measured there."""


def improve_values(library: Library, files: TrainingFiles, found: Found) -> dict[str, Any]:
    """Return what the page of an improvement shows."""
    improvement = Improvement(found.path)
    known = {one.path: one for one in files.all()}
    chapters = [_chapter(library, known, improvement, one) for one in improvement.generations]
    arms = [_measured(library, improvement, arm) for arm in improvement.arms()]
    return {
        "found": found,
        "improvement": improvement,
        "settings": improvement.settings,
        "kinds": KINDS,
        "chapters": chapters,
        "arms": arms,
        "recorded": RECORDED,
        "tested": [one for one in arms if one.test],
        "recipe": read_text(found.path / "recipe.yaml"),
    }


def _chapter(library: Library, known: dict[Any, Found], improvement: Improvement, one: Generation) -> Chapter:
    changed, unreadable = edits_or_why_not(improvement, one)
    asked = None
    with suppress(KeyError, StorageError):
        asked = next(iter(library.episodes(library.path(str(one.proposal["run"])))), None)
    gate, confirm = (_pairs(library, improvement, one, what) for what in ("gate", "confirm"))
    return Chapter(
        one,
        changed,
        unreadable,
        asked,
        gate,
        confirm,
        known.get(one.folder / "train"),
        known.get(manifest_of(one.folder / "train.jsonl")),
    )


def _pairs(
    library: Library, improvement: Improvement, one: Generation, what: str
) -> list[tuple[Recording, Recording]]:
    """Return what the gate compared. A parent can have more recordings: those of later generations."""
    if one.arm is None:
        return []
    before, after = (improvement.recordings(arm, what) for arm in (one.parent, one.arm))
    pairs = zip(before, after, strict=False)
    return [pair for pair in pairs if all(_run(library, recording.run) for recording in pair)]


def _measured(library: Library, improvement: Improvement, arm: Arm) -> Measured:
    runs = {
        what: [(one, _run(library, one.run)) for one in improvement.recordings(arm, what)]
        for what in RECORDED
    }
    measured = Measured(arm, runs)
    with suppress(KeyError, StorageError):
        paths = [library.path(one.run) for one, _ in runs["test"]]
        rows = summarise(library.all_episodes(paths), ["split"])
        measured.test = rows[0] if len(rows) == 1 else {}
    return measured


def _run(library: Library, run: str) -> Run | None:
    with suppress(KeyError):
        return library.run(library.path(run))
    return None
