"""What each call of an episode changed: its replay, with the assertions evaluated after every call."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from mcp_bench.bridge.replay.one_episode import replay_of
from mcp_bench.servers.errors import BenchError


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
    """Replay an episode of the run in a folder."""
    try:
        found = replay_of(path, episode)
    except BenchError as error:
        return Effects(problem=str(error))
    pairs = zip(found.calls, found.steps, strict=True)
    return Effects(
        tuple(
            Effect(call.number, step.label, step.met, step.objectives, step.broken, step.changed)
            for call, step in pairs
        ),
        found.same,
    )
