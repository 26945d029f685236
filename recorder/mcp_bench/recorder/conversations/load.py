"""Trajectories from the store, and the merge that the referee makes before it stores one."""

from __future__ import annotations

from mcp_bench.recorder.conversations.align import merge
from mcp_bench.recorder.conversations.model_turns import model_turns
from mcp_bench.recorder.store.model_calls import preferred_usage, total_usage
from mcp_bench.recorder.store.reader import RunReader, StoredEpisode
from mcp_bench.recorder.taint import verified
from mcp_bench.recorder.trajectory import Trajectory, Usage

__all__ = ["merge", "trajectory"]


def trajectory(reader: RunReader, episode: StoredEpisode, *, model_calls: bool = False) -> Trajectory:
    """Return an episode in the canonical form. One that never ended is made from its calls.

    Its usage is what the model's endpoint counted, where that was captured for all requests. With
    `model_calls`, what was captured of each turn goes with it.
    """
    messages = reader.messages(episode.id)
    captured = reader.model_calls(episode.id)
    told = Usage(**episode.usage) if episode.usage else None
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
        verified=verified(episode),
        taint=episode.taint,
        partial=episode.partial,
        strict=episode.strict,
        usage=preferred_usage(total_usage(captured), told),
        messages=messages or merge(episode.prompt, [], reader.calls(episode.id)),
        tools=reader.tools(episode.id),
        model_calls=model_turns(captured, reader.model_answers(episode.id)) if model_calls else [],
    )
