"""Trajectories from the store, and the merge that the referee makes before it stores one."""

from __future__ import annotations

from mcp_bench.recorder.merge import merge
from mcp_bench.recorder.reader import RunReader, StoredEpisode
from mcp_bench.recorder.trajectory import Trajectory, Usage

__all__ = ["merge", "trajectory"]


def trajectory(reader: RunReader, episode: StoredEpisode) -> Trajectory:
    """Return an episode in the canonical form. One that never ended is made from its calls."""
    messages = reader.messages(episode.id)
    return Trajectory(
        id=episode.id,
        benchmark=episode.benchmark,
        task=episode.task,
        split=episode.split,
        domain=episode.domain,
        agent=episode.agent,
        model=episode.model,
        seed=episode.seed,
        isolation=episode.isolation,
        partial=episode.partial,
        strict=episode.strict,
        usage=Usage(**episode.usage) if episode.usage else None,
        messages=messages or merge(episode.prompt, [], reader.calls(episode.id)),
        tools=reader.tools(episode.id),
    )
