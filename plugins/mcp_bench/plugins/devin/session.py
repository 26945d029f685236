"""Read a session of Devin: a file in the Agent Trajectory Interchange Format (ATIF), version 1.7.

The format: https://github.com/laude-institute/harbor/blob/main/docs/rfcs/0001-trajectory-format.md
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from mcp_bench.plugins.agent_folder import AgentFolder
from mcp_bench.plugins.claude_code.session import model_names
from mcp_bench.plugins.contracts import McpServer
from mcp_bench.plugins.output import ODD, Session, plus
from mcp_bench.plugins.text_files import parse
from mcp_bench.recorder.trajectory import Usage

EXPORTED = "trajectory.json"
TRANSCRIPTS = ".local/share/devin/cli/transcripts"
"""Relative to HOME: its own copies, read if the export is missing."""


def exported(home: Path) -> Path:
    """Return the path for `--export`."""
    return home / EXPORTED


def read_session(home: AgentFolder, server: McpServer) -> Session:
    """Read a session as far as it exists and makes sense. `home` is HOME."""
    session = Session()
    for name in (EXPORTED, *home.find(f"{TRANSCRIPTS}/*.json")):
        document = read_json(home, name)
        if isinstance(document, dict) and isinstance(document.get("steps"), list):
            names = model_names(server)  # Devin's rules name tools in the same way
            with suppress(*ODD):
                add_model(session, document["agent"])
            for step in document["steps"]:
                with suppress(*ODD):
                    add(session, step, names)
            with suppress(*ODD):
                session.usage = final_usage(document["final_metrics"]) or session.usage
            break
    return session


def read_json(home: AgentFolder, name: str) -> Any:
    """Return a file's content, or None if it is missing, not a file of the agent, or not JSON."""
    with suppress(OSError, ValueError, RecursionError):
        return parse(home.read(name))
    return None


def add(session: Session, step: Mapping[str, Any], names: Mapping[str, str]) -> None:
    """Add a step: one answer of the model with its calls and their results."""
    if step["source"] != "agent" or step.get("is_copied_context"):
        return
    turns = session.turns
    turns.end()
    turns.reasoning(step.get("reasoning_content") or "")
    turns.text(text_of(step.get("message")))
    for call in step.get("tool_calls") or ():
        name = str(call["function_name"])
        turns.call(str(call["tool_call_id"]), names.get(name, name), dict(call.get("arguments") or {}))
    add_model(session, step)
    for result in (step.get("observation") or {}).get("results") or ():
        if result.get("source_call_id") is not None:
            turns.result(str(result["source_call_id"]), text_of(result.get("content")))
    if metrics := step.get("metrics"):
        cost = metrics.get("cost_usd")
        session.usage = plus(
            session.usage,
            int(metrics.get("prompt_tokens") or 0),
            int(metrics.get("completion_tokens") or 0),
            int(metrics.get("cached_tokens") or 0),
            None if cost is None else float(cost),
        )


def add_model(session: Session, source: Mapping[str, Any]) -> None:
    if name := source.get("model_name"):
        session.model = str(name)


def text_of(content: Any) -> str:
    if isinstance(content, list):
        return "\n".join(part["text"] for part in content if part.get("type") == "text")
    return "" if content is None else str(content)


def final_usage(metrics: Mapping[str, Any]) -> Usage | None:
    """Return the totals of a session, if it has them: only they include side work."""
    if None in (metrics.get("total_prompt_tokens"), metrics.get("total_completion_tokens")):
        return None
    return Usage(
        input_tokens=metrics["total_prompt_tokens"],
        output_tokens=metrics["total_completion_tokens"],
        cached_tokens=metrics.get("total_cached_tokens"),
        cost_usd=metrics.get("total_cost_usd"),
    )
