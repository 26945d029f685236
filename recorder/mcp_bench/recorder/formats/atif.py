"""Harbor's Agent Trajectory Interchange Format, version 1.8, one document per line.

https://www.harborframework.com/docs/agents/trajectory-format. A step is a turn; results of tools are the
observation of the step that called them. Harbor's models refuse unknown keys, so ours are in `extra`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mcp_bench.recorder.formats import Column
from mcp_bench.recorder.formats.facts import KEY, facts
from mcp_bench.recorder.trajectory import Message, Trajectory, Usage

SCHEMA = "ATIF-v1.8"
UNKNOWN = "unknown"


class Atif:
    name = "atif"
    summary = "Harbor's trajectory format (ATIF 1.8)"
    suffix = ".jsonl"
    columns: Mapping[str, Column] = {
        "schema_version": "string",
        "session_id": "string",
        "trajectory_id": "string",
        "agent": "json",
        "steps": "json list",
        "final_metrics": "json",
        "extra": "json",
    }

    def row(self, trajectory: Trajectory) -> dict[str, Any]:
        agent: dict[str, Any] = {"name": trajectory.agent, "version": trajectory.agent_version or UNKNOWN}
        if trajectory.model:
            agent["model_name"] = trajectory.model
        agent["tool_definitions"] = [tool.model_dump() for tool in trajectory.tools]
        return {
            "schema_version": SCHEMA,
            "session_id": trajectory.id,
            "trajectory_id": trajectory.id,
            "agent": agent,
            "steps": _steps(trajectory.messages),
            "final_metrics": _metrics(trajectory.usage),
            "extra": {KEY: facts(trajectory)},
        }


def _steps(messages: list[Message]) -> list[dict[str, Any]]:
    steps: list[dict[str, Any]] = []
    for message in messages:
        if message.role == "tool" and steps:
            observation = steps[-1].setdefault("observation", {"results": []})
            observation["results"].append(_result(message, steps[-1]))
            continue
        source = "agent" if message.role == "assistant" else message.role
        step: dict[str, Any] = {"step_id": len(steps) + 1, "source": source}
        step["message"] = message.content or ""
        if message.reasoning:
            step["reasoning_content"] = message.reasoning
        if message.tool_calls:
            step["tool_calls"] = [
                {
                    "tool_call_id": call.id,
                    "function_name": call.function.name,
                    "arguments": call.function.arguments,
                }
                for call in message.tool_calls
            ]
        steps.append(step)
    return steps


def _result(message: Message, step: dict[str, Any]) -> dict[str, Any]:
    calls = {call["tool_call_id"] for call in step.get("tool_calls", ())}
    # Harbor refuses a reference to a call of another step
    known = {"source_call_id": message.tool_call_id} if message.tool_call_id in calls else {}
    extra = {"extra": {"is_error": True}} if message.is_error else {}
    return {**known, "content": message.content or "", **extra}


def _metrics(usage: Usage | None) -> dict[str, Any] | None:
    if usage is None:
        return None
    metrics = {
        "total_prompt_tokens": usage.input_tokens,
        "total_completion_tokens": usage.output_tokens,
        "total_cached_tokens": usage.cached_tokens,
        "total_cost_usd": usage.cost_usd,
    }
    return {name: value for name, value in metrics.items() if value is not None} or None
