"""Rollouts of verifiers: `results.jsonl` of versions before 0.2, and `traces.jsonl` of 0.4.

The reward, from 0 to 1, becomes the partial grade; 1 counts as solved.
https://github.com/PrimeIntellect-ai/verifiers
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from mcp_bench.recorder.formats.facts import KEY
from mcp_bench.recorder.importers import Row
from mcp_bench.recorder.importers.attempt import Attempt, RowError, partial_grade
from mcp_bench.recorder.importers.conversation import chat_messages, tool_schemas
from mcp_bench.recorder.importers.facts import facts, failed_calls
from mcp_bench.recorder.importers.json_rows import LINE_PATTERNS, first, parse, rows
from mcp_bench.recorder.trajectory import Usage


class Verifiers:
    name = "verifiers"
    summary = "verifiers' results.jsonl (0.1) and traces.jsonl (0.4)"
    patterns = LINE_PATTERNS

    def recognises(self, path: Path) -> bool:
        keys = first(path).keys()
        return {"task", "traces"} <= keys or {"example_id", "prompt", "completion", "reward"} <= keys

    def rows(self, path: Path) -> Iterator[Row]:
        return rows(path, partial(_attempts, _metadata(path)))


def _attempts(metadata: Mapping[str, Any], row: dict[str, Any]) -> Iterator[Attempt]:
    if isinstance(row.get("traces"), list):
        for trace in row["traces"]:
            yield _trace(row, trace)
    elif "completion" in row:
        yield _result(metadata, row)
    else:
        raise RowError("the row has neither traces nor a completion")


def _result(metadata: Mapping[str, Any], row: Mapping[str, Any]) -> Attempt:
    info = row.get("info")
    info = parse(info.encode()) if isinstance(info, str) and info.startswith("{") else info
    named = info.get("task_name") if isinstance(info, dict) else None
    error = row.get("error")
    prompt = row.get("prompt") or []
    return Attempt(
        messages=chat_messages([*_said(prompt, "user"), *_said(row.get("completion") or [], "assistant")]),
        tools=tool_schemas(row.get("tool_defs")),
        benchmark=metadata.get("env_id") or None,
        task=str(named or row["example_id"]),
        domain=str(row["task"]) if row.get("task") else None,
        model=metadata.get("model") or None,
        partial=partial_grade(row.get("reward")),
        metrics=row.get("metrics") or {},
        usage=_usage(row.get("token_usage")),
        error=_error(error),
    )


def _trace(episode: Mapping[str, Any], trace: Mapping[str, Any]) -> Attempt:
    ours = (trace.get("info") or {}).get(KEY)
    nodes = trace.get("nodes") or []
    path = _longest(nodes)
    task = trace.get("task") or episode["task"]
    data = task.get("data") or {}
    agent = trace.get("agent") or {}
    rewards = {name: reward for name, reward in (trace.get("rewards") or {}).items() if reward}
    reward = sum(one["score"] * one.get("weight", 1.0) for one in rewards.values()) if rewards else None
    errors = [*(trace.get("errors") or []), *(episode.get("errors") or [])]
    root_tools = nodes[path[0]].get("tools") if path else None
    fields: dict[str, Any] = {
        "benchmark": (episode.get("env") or {}).get("id") or None,
        "task": str(data.get("id") or data.get("name") or task.get("key") or data.get("idx")),
        "agent": agent.get("name"),
        "model": _model(agent, trace),
        "partial": partial_grade(reward),
        "id": trace.get("id"),
        **facts(ours),
    }
    return Attempt(
        messages=chat_messages([nodes[place]["message"] for place in path], failed_calls(ours)),
        tools=tool_schemas(trace.get("tools") or root_tools),
        metrics=trace.get("metrics") or {},
        error=_error(errors[-1] if errors and not trace.get("ok", True) else None),
        termination="timeout" if episode.get("is_timeout") or trace.get("is_timeout") else None,
        **fields,
    )


def _longest(nodes: list[Any]) -> list[int]:
    """Return the indices of the nodes from the root to the deepest leaf, the last one of several.

    Other branches hold the messages from before a context was truncated or rewritten.
    """
    depth: list[int] = []
    for node in nodes:
        parent = node.get("parent")
        if parent is not None and not 0 <= parent < len(depth):
            raise RowError(f"a node's parent {parent} does not precede it")
        depth.append(1 if parent is None else depth[parent] + 1)
    if not depth:
        raise RowError("a trace has no messages")
    place: int | None = max(range(len(depth)), key=lambda at: (depth[at], at))
    path = []
    while place is not None:
        path.append(place)
        place = nodes[place].get("parent")
    return path[::-1]


def _model(agent: Mapping[str, Any], trace: Mapping[str, Any]) -> str | None:
    config = agent.get("config") or {}
    called = next((call.get("model") for call in trace.get("calls") or [] if call.get("model")), None)
    model = config.get("model") or called
    return str(model) if model else None


def _said(said: Any, role: str) -> list[Any]:
    return [{"role": role, "content": said}] if isinstance(said, str) else list(said)


def _usage(reported: Any) -> Usage | None:
    if not isinstance(reported, dict):
        return None
    known = {name: reported.get(name) for name in ("input_tokens", "output_tokens")}
    return Usage(**{name: int(value) for name, value in known.items() if value is not None})


def _error(error: Any) -> str | None:
    if not error:
        return None
    if isinstance(error, dict):
        return str(error.get("error_chain_str") or error.get("message") or error.get("error") or error)
    return str(error)


def _metadata(path: Path) -> dict[str, Any]:
    """Return environment and model from `metadata.json` beside the results, else from the folder's name."""
    try:
        found = parse((path.parent / "metadata.json").read_bytes(), nan_is_null=True)
        return found if isinstance(found, dict) else {}
    except (OSError, RowError):
        environment, dashes, model = path.parent.parent.name.partition("--")
        return {"env_id": environment, "model": model.replace("--", "/")} if dashes else {}
