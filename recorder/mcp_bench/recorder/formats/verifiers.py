"""Episodes of verifiers 0.4, as in its `traces.jsonl`: a trace is a tree of messages.

https://github.com/PrimeIntellect-ai/verifiers (`verifiers.v1.trace`). Calls are flat, with arguments as a
string. The reward is the partial grade; strict is a metric. Times are unknown and set to zero.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import version
from typing import Any

from mcp_bench.recorder.formats import Column
from mcp_bench.recorder.formats.chat import arguments_text
from mcp_bench.recorder.formats.facts import KEY, facts_apart
from mcp_bench.recorder.trajectory import Message, Trajectory


class Verifiers:
    name = "verifiers"
    summary = "episodes of verifiers 0.4, with one trace each"
    suffix = ".jsonl"
    columns: Mapping[str, Column] = {
        "id": "string",
        "env": "json",
        "task": "json",
        "ok": "bool",
        "is_timeout": "bool",
        "errors": "json list",
        "traces": "json list",
    }

    def row(self, trajectory: Trajectory) -> dict[str, Any]:
        prompt = next((m.content for m in trajectory.messages if m.role == "user"), None)
        data = {"id": trajectory.task, "name": trajectory.task, "prompt": prompt or ""}
        task = {"type": "Task", "data": data, "key": f"{trajectory.benchmark}/{trajectory.task}"}
        graded = trajectory.partial is not None
        trace = {
            "version": 1,
            "id": trajectory.id,
            "verifiers": {"version": f"mcp-bench-kit {version('mcp-bench-kit')}"},
            "task": task,
            "agent": {"config": _config(trajectory), "name": trajectory.agent},
            "tools": [{"type": "function", **tool.function.model_dump()} for tool in trajectory.tools],
            "nodes": [_node(number, message) for number, message in enumerate(trajectory.messages)],
            "calls": [],
            "rewards": {"partial": {"score": trajectory.partial, "weight": 1.0}} if graded else {},
            "metrics": {"strict": float(bool(trajectory.strict))} if graded else {},
            "info": {KEY: facts_apart(trajectory)},
            "is_completed": True,
            "ok": True,
            "errors": [],
            "timing": {"start": 0.0},
        }
        return {
            "id": trajectory.id,
            "env": {"id": trajectory.benchmark},
            "task": task,
            "ok": True,
            "is_timeout": trajectory.timed_out,
            "errors": [],
            "traces": [trace],
        }


def _config(trajectory: Trajectory) -> dict[str, Any]:
    return {"model": trajectory.model} if trajectory.model else {}


def _node(number: int, message: Message) -> dict[str, Any]:
    node = {"message": _message(message), "sampled": message.role == "assistant", "timestamp": 0.0}
    return {"parent": number - 1, **node} if number else node


def _message(message: Message) -> dict[str, Any]:
    match message.role:
        case "tool":
            named = {"name": message.name} if message.name else {}
            answered = {"role": "tool", "tool_call_id": message.tool_call_id or ""}
            return {**answered, "content": message.content or "", **named}
        case "assistant":
            calls = [
                {"id": call.id, "name": call.function.name, "arguments": arguments_text(call)}
                for call in message.tool_calls
            ]
            row = {
                "role": "assistant",
                "content": message.content,
                "reasoning_content": message.reasoning,
                "tool_calls": calls,
            }
            return {key: value for key, value in row.items() if value}
        case role:
            return {"role": role, "content": message.content or ""}
