"""Record runs as the referee does: frames first, then the end, then the sealed grade."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from mcp_bench.recorder.conversations.align import align
from mcp_bench.recorder.frames.body import Body, GrowingBody
from mcp_bench.recorder.records import (
    EpisodeEnd,
    EpisodeStart,
    PlannedEpisode,
    RunInfo,
    Termination,
    new_id,
    now_us,
)
from mcp_bench.recorder.runs.parts import new_part
from mcp_bench.recorder.runs.run_folder import RunFolder
from mcp_bench.recorder.trajectory import FunctionSchema, Message, ToolSchema, Usage
from mcp_bench.servers.contracts import AssertionResult, Grade, Score

TOOL = ToolSchema(
    function=FunctionSchema(
        name="transfer",
        description="Send money.",
        parameters={"type": "object", "properties": {"amount": {"type": "number"}}},
    )
)


def line(message: object) -> bytes:
    return json.dumps(message).encode() + b"\n"


def request(rpc_id: Any, tool: str, arguments: Any) -> bytes:
    return line(
        {
            "jsonrpc": "2.0",
            "id": rpc_id,
            "method": "tools/call",
            "params": {"name": tool, "arguments": arguments},
        }
    )


def response(rpc_id: Any, text: str | list[dict[str, Any]], *, is_error: bool = False) -> bytes:
    content = [{"type": "text", "text": text}] if isinstance(text, str) else text
    return line({"jsonrpc": "2.0", "id": rpc_id, "result": {"content": content, "isError": is_error}})


def planned(task: str = "user_task_0", split: str = "train", repeat: int = 0, **rest: Any) -> PlannedEpisode:
    return PlannedEpisode(
        task=task, split=split, domain="banking", prompt=f"Please do {task}.", seed=7, repeat=repeat, **rest
    )


def run_info(*plan: PlannedEpisode, **rest: Any) -> RunInfo:
    facts: dict[str, Any] = {
        "id": new_id("run"),
        "created_us": now_us(),
        "benchmark": "agentdojo",
        "benchmark_version": "v1.2.2",
        "agent": "oracle",
        "agent_version": "1.0",
        "isolation": "none",
        "home": "sealed",
        "tools": "mcp-only",
        "settings": {"jobs": 2},
        "plan": list(plan) or [planned()],
    }
    return RunInfo(**{**facts, **rest})


def begin(folder: RunFolder, slot: PlannedEpisode, attempt: int = 1, **facts: Any) -> str:
    """Begin an attempt; `facts` are further fields of its EpisodeStart."""
    episode = new_id("ep")
    folder.recording.begin_episode(
        EpisodeStart(
            id=episode,
            attempt=attempt,
            started_us=now_us(),
            **slot.model_dump(exclude={"max_calls", "timeout", "limits", "needs", "error"}),
            **{"tools": [TOOL], **facts},
        )
    )
    return episode


@dataclass
class Episode:
    """The events of one episode: calls as (tool, arguments, result), then the verdict.

    A result is a text, or MCP content. A text that begins with `!` is an error of the tool.
    """

    calls: Sequence[tuple[str, dict[str, Any], Any]] = (("transfer", {"amount": 12.5}, "done"),)
    partial: float | None = 1.0
    invalid: str | None = None
    transcript: list[Message] = field(
        default_factory=lambda: [Message(role="assistant", content="I sent the money.")]
    )
    answer: str = "I sent the money."
    detail: str = ""
    assertion: str = "sent"
    metrics: dict[str, float] = field(default_factory=lambda: {"steps": 1})
    score: Score | None = None
    submissions: Sequence[Score] = ()
    certain: bool = True
    termination: Termination = "agent_exit"
    rewards: dict[int, float] = field(default_factory=dict)
    state: Any = field(default_factory=lambda: {"balance": "SEALED-STATE"})
    flags: Sequence[str] = ()
    """Details of flags that it got."""


TWO_CALLS = Episode(
    calls=[("transfer", {"amount": 1}, "one"), ("transfer", {"amount": 2}, "!two")], rewards={1: 0.5}
)
THREE_TASKS = [planned(f"user_task_{number}") for number in range(3)]


def play(folder: RunFolder, slot: PlannedEpisode, story: Episode, attempt: int = 1, **facts: Any) -> str:
    episode = begin(folder, slot, attempt, **facts)
    for rpc_id, (tool, arguments, text) in enumerate(story.calls, start=1):
        folder.recording.store_frame(episode, 1, "client", request(rpc_id, tool, arguments))
        folder.recording.mark_executed(episode, 1, rpc_id)
        folder.recording.store_frame(episode, 1, "server", response(rpc_id, text, is_error=text[:1] == "!"))
    for detail in story.flags:
        folder.recording.flag(episode, "wrong_token", detail)
    folder.recording.close_connection(episode, 1)
    calls = folder.recording.recorded_calls(episode)
    messages = align(slot.prompt, story.transcript, calls, system=slot.system)
    end = EpisodeEnd(
        termination=story.termination,
        invalid=story.invalid,
        exit_code=0,
        answer=story.answer,
        usage=Usage(input_tokens=10, output_tokens=2),
        connections=1,
        ended_us=now_us(),
    )
    folder.recording.end_episode(episode, end, messages)
    if story.partial is not None:
        strict = story.partial == 1.0
        grade = Grade(
            partial=story.partial,
            strict=strict,
            assertions=(
                AssertionResult(name=story.assertion, passed=strict, kind="objective", detail=story.detail),
            ),
            metrics=story.metrics,
            grader_version="g1",
            score=story.score,
            submissions=tuple(story.submissions),
            certain=story.certain,
        )
        folder.grades.put(episode, grade, story.state, now_us(), rewards=story.rewards)
    return episode


def record(stories: Sequence[tuple[PlannedEpisode, Episode]], **info: Any) -> tuple[RunFolder, list[str]]:
    """Record one run with one episode for each story, and close it."""
    with RunFolder.create(run_info(*(slot for slot, _ in stories), **info)) as folder:
        return folder, [play(folder, slot, story) for slot, story in stories]


def large(body: bytes) -> Body:
    """Return a body that is kept in a file, as one too large for memory."""
    growing = GrowingBody(large=1)
    growing.add(body)
    return growing.take()


def part_of(run: RunFolder) -> RunFolder:
    """Create a part of a run, as one of its referee processes does."""
    return RunFolder(new_part(run), run.info)


def kill(run: RunFolder) -> None:
    """Leave a run, or a part of one, as a kill does: closed by the system, and not sealed."""
    run.recording.close()
    run.grades.close()
    assert run._lock is not None
    os.close(run._lock)
    run._lock = None
