"""What each call of an episode changed: its replay, with the assertions evaluated after every call.

It is the same replay that `export --format steps` makes. The result reveals the grade, so it stays in memory.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from mcp_bench.bridge.replay.step_labels import labels
from mcp_bench.recorder.store.reader import RunReader
from mcp_bench.servers.errors import BenchError

LABELS: Mapping[str, str] = {
    "progress": "an objective became true",
    "setback": "an objective was undone",
    "broke_guardrail": "a guardrail broke",
    "error": "the tool returned an error",
    "neutral": "nothing that is asserted changed",
}
_one_at_a_time = threading.Lock()


@dataclass(frozen=True, slots=True)
class Effect:
    """The effect of one executed call. `changed` has `(kind, assertion, whether it holds now)`."""

    execution: int
    label: str
    met: int
    objectives: int
    broken: int
    changed: tuple[tuple[str, str, bool], ...]


@dataclass(frozen=True, slots=True)
class Effects:
    """The effects of an episode's calls, or why they are unknown."""

    effects: tuple[Effect, ...] = ()
    same: bool = True
    """Whether every call gave the recorded result again."""
    problem: str = ""


def effects_of(path: Path, episode: str) -> Effects:
    """Replay an episode of the run in a folder. One replay runs at a time, and recent ones are kept."""
    with _one_at_a_time:
        try:
            return _replayed(path, episode)
        except BenchError as error:  # not kept: its cause can go away
            return Effects(problem=str(error))


@lru_cache(maxsize=64)
def _replayed(path: Path, episode: str) -> Effects:
    with RunReader(path) as reader:
        stored = reader.episode(episode)
    with closing(labels([(path, stored)])) as replays:
        found = next(replays)
    pairs = zip(found.calls, found.steps, strict=True)
    return Effects(
        tuple(
            Effect(call.number, step.label, step.met, step.objectives, step.broken, step.changed)
            for call, step in pairs
        ),
        found.same,
    )
