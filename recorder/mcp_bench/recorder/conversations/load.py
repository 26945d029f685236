"""Load trajectories from the store."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from mcp_bench.recorder.conversations.align import align
from mcp_bench.recorder.conversations.images import with_images
from mcp_bench.recorder.conversations.model_turns import model_turns
from mcp_bench.recorder.conversations.user_turns import (
    REPLY_TOOL,
    placed_user_turns,
    without_reply_tool,
)
from mcp_bench.recorder.runs.reader import RunReader, StoredEpisode
from mcp_bench.recorder.store.episode_rows import IMAGE
from mcp_bench.recorder.store.model_calls import StoredModelCall, preferred_usage, total_usage
from mcp_bench.recorder.taint import verified
from mcp_bench.recorder.trajectory import Message, ToolSchema, Trajectory, Usage


def conversation(
    reader: RunReader, episode: StoredEpisode, *, as_model_had_it: bool = False
) -> tuple[list[Message], list[ToolSchema]]:
    """Return the messages and tools of an episode. Places of messages are counted in this list everywhere.

    `as_model_had_it` leaves calls of `reply_to_user` in place of the user's turns.
    """
    placed, tools = _placed(reader, episode, as_model_had_it)
    return [message for _, message in placed], tools


def as_shown(
    reader: RunReader, episode: StoredEpisode, captured: Sequence[StoredModelCall]
) -> list[StoredModelCall]:
    """Return captured model calls of an episode, each with the place of its turn in `conversation`.

    Where turns of a user were calls of `reply_to_user`, a message can have become several: its first one is
    the model's turn. One that is left out has no place.
    """
    if not captured:
        return []
    places: dict[int | None, int] = {}
    for shown, (stored, message) in enumerate(_placed(reader, episode, False)[0]):
        if message.role == "assistant":
            places.setdefault(stored, shown)
    return [replace(call, message=places.get(call.message)) for call in captured]


def _placed(
    reader: RunReader, episode: StoredEpisode, as_model_had_it: bool
) -> tuple[list[tuple[int, Message]], list[ToolSchema]]:
    """Return the messages, each with the place of the stored one that it was made from, and the tools."""
    messages = reader.messages(episode.id)
    if lost := not messages:
        calls = reader.calls(episode.id)
        messages = align(episode.prompt, [], calls, system=reader.system(episode.id))
    if any(message.role == "tool" and IMAGE in (message.content or "") for message in messages):
        messages = with_images(messages, reader.calls(episode.id))
    tools = reader.tools(episode.id)
    if lost or (not as_model_had_it and any(tool.function.name == REPLY_TOOL for tool in tools)):
        return placed_user_turns(messages), without_reply_tool(tools)
    return list(enumerate(messages)), tools


def trajectory(reader: RunReader, episode: StoredEpisode, *, model_calls: bool = False) -> Trajectory:
    """Return an episode as a trajectory. An episode that never ended is built from its calls.

    The usage is the model endpoint's own count if every request was captured, else what the agent
    reported. `model_calls` adds the captured model call of each turn. The conversation is then as the model
    had it, with calls of `reply_to_user` in place of the user's turns.
    """
    messages, tools = conversation(reader, episode, as_model_had_it=model_calls)
    captured = reader.model_calls(episode.id)
    reported = Usage(**episode.usage) if episode.usage else None
    return Trajectory(
        id=episode.id,
        benchmark=episode.benchmark,
        task=episode.task,
        split=episode.split,
        domain=episode.domain,
        agent=episode.agent,
        agent_version=episode.agent_version,
        model=episode.model,
        seed=episode.seed,
        isolation=episode.isolation,
        verified=verified(episode),
        taint=episode.taint,
        partial=episode.partial,
        strict=episode.strict,
        score=episode.score,
        timed_out=episode.termination == "timeout",
        usage=preferred_usage(total_usage(captured), reported),
        messages=messages,
        tools=tools,
        model_calls=model_turns(captured, reader.model_answers(episode.id)) if model_calls else [],
    )
