"""An episode as a sample of Inspect's log format, version 2: https://inspect.aisi.org.uk/eval-logs.html

Events refer to the input of a model call (`events_data`) and have only its output, so a sample grows with
its conversation and not with its square.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from mcp_bench.recorder.conversations.timeline import Moment
from mcp_bench.recorder.formats.facts import KEY, facts_apart
from mcp_bench.recorder.runs.reader import StoredEpisode
from mcp_bench.recorder.trajectory import Message, Trajectory, Usage

NO_MODEL = "none/none"
"""Inspect's name for no model."""
_LIMITS = {"timeout": "time", "max_calls": "message"}


@dataclass(frozen=True, slots=True)
class Logged:
    """An episode with all that its sample shows. `moments` are those of the messages."""

    episode: StoredEpisode
    conversation: Trajectory
    moments: Sequence[Moment]
    assertions: Sequence[dict[str, Any]]
    metrics: dict[str, Any]

    @property
    def model(self) -> str:
        return self.conversation.model or NO_MODEL


def sample(logged: Logged, epoch: int) -> dict[str, Any]:
    """Return the sample.

    Args:
        logged: The episode.
        epoch: Number of the attempt at the task in this log, from 1.
    """
    episode, conversation = logged.episode, logged.conversation
    messages = [_message(f"{episode.id}-{n}", one) for n, one in enumerate(conversation.messages)]
    last = next((one for one in reversed(messages) if one["role"] == "assistant"), None)
    ended = episode.ended_us if episode.ended_us is not None else episode.started_us
    seconds = (ended - episode.started_us) / 1_000_000
    row: dict[str, Any] = {
        "id": episode.task,
        "epoch": epoch,
        "input": episode.prompt,
        "target": "",
        "messages": messages,
        "output": _output(logged.model, last),
        "scores": _scores(logged),
        "metadata": {KEY: _facts(logged)},
        "store": {},
        "events": list(_events(logged, messages)),
        "model_usage": model_usage(logged),
        "started_at": moment(episode.started_us),
        "completed_at": moment(ended),
        "total_time": seconds,
        "working_time": seconds,
        "uuid": episode.id,
        "attachments": {},
        "events_data": {"messages": messages, "calls": []},
    }
    if episode.invalid is not None:
        message = ": ".join(filter(None, (episode.invalid, episode.invalid_detail)))
        row["error"] = {"message": message, "traceback": "", "traceback_ansi": ""}
    if episode.termination in _LIMITS:
        reached = seconds if episode.termination == "timeout" else episode.calls
        row["limit"] = {"type": _LIMITS[episode.termination], "limit": reached}
    return row


def summary(row: dict[str, Any]) -> dict[str, Any]:
    """Return the entry of a sample in the list that Inspect's viewer loads first. Long texts are cut."""
    same = ("id", "epoch", "target", "model_usage", "started_at", "completed_at", "total_time", "uuid")
    entry = {name: row[name] for name in (*same, "working_time")}
    entry["input"] = str(row["input"])[:1000]
    entry["metadata"] = {}
    if row["scores"] is not None:
        entry["scores"] = {
            name: {"value": score["value"], "explanation": str(score.get("explanation") or "")[:1000]}
            for name, score in row["scores"].items()
        }
    if "error" in row:
        entry["error"] = row["error"]["message"][:1000]
    if "limit" in row:
        entry["limit"] = row["limit"]["type"]
    return {**entry, "completed": True, "retries": 0, "message_count": len(row["messages"])}


def model_usage(logged: Logged) -> dict[str, Any]:
    """Return the tokens by model. In Inspect, input tokens do not include cached ones."""
    usage = logged.conversation.usage
    return {} if usage is None else {logged.model: _usage(usage)}


def moment(microseconds: int) -> str:
    return datetime.fromtimestamp(microseconds / 1_000_000, UTC).isoformat()


def _usage(usage: Usage) -> dict[str, Any]:
    cached = usage.cached_tokens or 0
    counts: dict[str, Any] = {
        "input_tokens": max(0, (usage.input_tokens or 0) - cached),
        "output_tokens": usage.output_tokens or 0,
        "total_tokens": (usage.input_tokens or 0) + (usage.output_tokens or 0),
    }
    if usage.cached_tokens is not None:
        counts["input_tokens_cache_read"] = cached
    if usage.cost_usd is not None:
        counts["total_cost"] = usage.cost_usd
    return counts


def _facts(logged: Logged) -> dict[str, Any]:
    episode = logged.episode
    names = ("run", "benchmark_version", "agent_version", "repeat", "attempt", "termination", "exit_code")
    more = {name: getattr(episode, name) for name in (*names, "invalid", "invalid_detail", "trainable")}
    return {
        **facts_apart(logged.conversation),
        **more,
        "tools_mode": episode.tools_mode,
        "home": episode.home,
    }


def _scores(logged: Logged) -> dict[str, Any] | None:
    episode = logged.episode
    if episode.partial is None:
        return None
    lines = [
        f"{'+' if one.get('passed') else '-'} {one.get('name')}{_detail(one)}" for one in logged.assertions
    ]
    explained = {"answer": episode.answer, "explanation": "\n".join(lines) or None}
    more = {"assertions": list(logged.assertions), "metrics": logged.metrics}
    return {
        "partial": {"value": episode.partial, **explained, "metadata": more, "history": []},
        "strict": {"value": "C" if episode.strict else "I", **explained, "history": []},
    }


def _detail(assertion: dict[str, Any]) -> str:
    return f": {assertion['detail']}" if assertion.get("detail") else ""


def _message(number: str, message: Message) -> dict[str, Any]:
    row: dict[str, Any] = {"id": number, "role": message.role, "content": message.content or ""}
    match message.role:
        case "user":
            row["source"] = "input"
        case "assistant":
            row["source"] = "generate"
            if message.reasoning:
                text = [{"type": "text", "text": message.content}] if message.content else []
                row["content"] = [{"type": "reasoning", "reasoning": message.reasoning}, *text]
            if message.tool_calls:
                row["tool_calls"] = [
                    {
                        "id": call.id,
                        "function": call.function.name,
                        "arguments": call.function.arguments,
                        "type": "function",
                    }
                    for call in message.tool_calls
                ]
        case "tool":
            row |= {"tool_call_id": message.tool_call_id, "function": message.name}
            if message.is_error:
                row["error"] = _error(message)
    return row


def _error(message: Message) -> dict[str, str]:
    return {"type": "unknown", "message": message.content or ""}


def _output(model: str, message: dict[str, Any] | None) -> dict[str, Any]:
    """Return the output of a model call that made a message."""
    if message is None:
        return {"model": model, "choices": [], "completion": ""}
    content = message["content"]
    texts = content if isinstance(content, str) else "".join(part.get("text", "") for part in content)
    reason = "tool_calls" if message.get("tool_calls") else "stop"
    choice = {"message": message, "stop_reason": reason}
    return {"model": model, "choices": [choice], "completion": texts}


def _events(logged: Logged, messages: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield what happened, in order. A turn has the time of the last thing before it."""
    episode, conversation = logged.episode, logged.conversation
    start = at = episode.started_us

    def event(kind: str, when: int, **fields: Any) -> dict[str, Any]:
        past = (when - start) / 1_000_000
        return {"event": kind, "timestamp": moment(when), "working_start": past, **fields}

    begins = {"input": episode.prompt, "target": "", "id": episode.task}
    yield event("sample_init", at, sample=begins, state={})
    tools = [tool.function.model_dump() for tool in conversation.tools]
    arguments = {
        call.id: call.function.arguments for turn in conversation.messages for call in turn.tool_calls
    }
    shown = zip(conversation.messages, messages, logged.moments, strict=True)
    for place, (message, row, when) in enumerate(shown):
        if message.role == "assistant":
            yield event(
                "model",
                at,
                model=logged.model,
                input=[],
                input_refs=[[0, place]],
                tools=tools,
                tool_choice="auto",
                config={},
                output=_output(logged.model, row),
            )
            tools = []  # stated once: they are the same for all turns
        elif message.role == "tool":
            begun = at if when.started_us is None else when.started_us
            at = max(at, when.ended_us or begun)
            failed = {"error": _error(message)} if message.is_error else {}
            yield event(
                "tool",
                begun,
                type="function",
                id=message.tool_call_id or "",
                function=message.name or "",
                arguments=arguments.get(message.tool_call_id or "", {}),
                result=message.content or "",
                events=[],
                completed=moment(at),
                **failed,
            )
    ended = max(at, episode.ended_us or at)
    for name, score in (_scores(logged) or {}).items():
        yield event("score", ended, score=score, scorer=name)
