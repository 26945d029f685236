"""Harbor's Agent Trajectory Interchange Format, versions 1.0 to 1.8.

A file has one trajectory, or one per line. The format has no field for grades. Our exports store them in
`extra`; Harbor stores them in `result.json` in the parent of the agent's folder.
https://www.harborframework.com/docs/agents/trajectory-format
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from mcp_bench.recorder.formats.atif import UNKNOWN
from mcp_bench.recorder.formats.facts import KEY
from mcp_bench.recorder.importers import Row
from mcp_bench.recorder.importers.attempt import Attempt, RowError, partial_grade
from mcp_bench.recorder.importers.conversation import paired, text_of, tool_call, tool_schemas
from mcp_bench.recorder.importers.facts import facts
from mcp_bench.recorder.importers.json_rows import LINE_PATTERNS, first, json_object, parse, rows
from mcp_bench.recorder.importers.task_name import task_of_messages
from mcp_bench.recorder.trajectory import Message


class Atif:
    name = "atif"
    summary = "Harbor's trajectories (ATIF 1.0 to 1.8)"
    patterns = ("trajectory.json", "*.trajectory.json", *LINE_PATTERNS)

    def recognises(self, path: Path) -> bool:
        row = _document(path) if path.suffix == ".json" else first(path)
        return str(row.get("schema_version", "")).startswith("ATIF-")

    def rows(self, path: Path) -> Iterator[Row]:
        verdict = _verdict(path)
        if path.suffix == ".json":
            document = path.read_bytes()
            yield Row("the document", lambda: [_attempt(verdict, json_object(parse(document)))])
        else:
            yield from rows(path, partial(_each, verdict))


def _each(verdict: Mapping[str, Any], row: dict[str, Any]) -> Iterator[Attempt]:
    yield _attempt(verdict, row)


def _attempt(verdict: Mapping[str, Any], row: Mapping[str, Any]) -> Attempt:
    if not str(row.get("schema_version", "")).startswith("ATIF-"):
        raise RowError("schema_version is missing or does not start with ATIF-")
    agent = row["agent"]
    messages = paired([message for step in row["steps"] for message in _step(step)])
    metrics = row.get("final_metrics") or {}
    usage = {
        "input_tokens": metrics.get("total_prompt_tokens"),
        "output_tokens": metrics.get("total_completion_tokens"),
        "cached_tokens": metrics.get("total_cached_tokens"),
        "cost_usd": metrics.get("total_cost_usd"),
    }
    fields: dict[str, Any] = {
        "task": task_of_messages(messages),
        "agent": agent["name"],
        "agent_version": agent["version"] if agent.get("version") != UNKNOWN else None,
        "model": agent.get("model_name"),
        "usage": usage if any(value is not None for value in usage.values()) else None,
        "id": row.get("trajectory_id") or row.get("session_id"),
        **verdict,
        **facts((row.get("extra") or {}).get(KEY)),
    }
    return Attempt(messages=messages, tools=tool_schemas(agent.get("tool_definitions")), **fields)


def _step(step: Mapping[str, Any]) -> Iterator[Message]:
    if step.get("is_copied_context"):
        return
    text = text_of(step.get("message"))
    match step["source"]:
        case "agent":
            calls = [
                tool_call(call["tool_call_id"], call["function_name"], call["arguments"])
                for call in step.get("tool_calls") or []
            ]
            yield Message(
                role="assistant", content=text, reasoning=step.get("reasoning_content"), tool_calls=calls
            )
        case "user" | "system" as role:
            yield Message(role=role, content=text or "")
        case source:
            raise RowError(f"step {step.get('step_id')}: unknown source {source!r}")
    for result in (step.get("observation") or {}).get("results") or []:
        if step["source"] == "agent" and step.get("tool_calls"):
            yield Message(
                role="tool",
                content=text_of(result.get("content")) or "",
                tool_call_id=result.get("source_call_id"),
                is_error=bool((result.get("extra") or {}).get("is_error")),
            )
        elif observed := text_of(result.get("content")):
            yield Message(role="user", content=observed)  # an observation without a call


def _verdict(path: Path) -> dict[str, Any]:
    """Return task and grade from `TRIAL/result.json` for the trajectory `TRIAL/agent/trajectory.json`."""
    result = _document(path.parent.parent / "result.json")
    verified = result.get("verifier_result")
    rewards = verified.get("rewards") if isinstance(verified, dict) else None
    if not isinstance(rewards, dict) or not result.get("task_name"):
        return {}
    grade = partial_grade(rewards.get("reward", next(iter(rewards.values()), None)))
    verdict = {"task": str(result["task_name"]), "metrics": rewards}
    return verdict if grade is None else {**verdict, "partial": grade}


def _document(path: Path) -> dict[str, Any]:
    try:
        found = parse(path.read_bytes(), nan_is_null=True)
    except (OSError, RowError, MemoryError):
        return {}
    return found if isinstance(found, dict) else {}
