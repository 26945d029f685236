"""The facts in a row beside its conversation: the episode and its grade."""

from __future__ import annotations

from typing import Any

from mcp_bench.recorder.formats import Column
from mcp_bench.recorder.trajectory import Trajectory

KEY = "mcp_bench"
"""Key of the facts in formats that have a place for foreign data."""

_LEFT_OUT = {"messages", "tools", "model_calls", "agent_version", "timed_out"}
"""The conversation, and what only formats with a place for it have."""
_COLUMNS: dict[Any, Column] = {str: "string", int: "int", float: "float", bool: "bool"}


def facts(trajectory: Trajectory) -> dict[str, Any]:
    """Return everything but the conversation. `usage` has only the values that the agent reported."""
    found = trajectory.model_dump(exclude=_LEFT_OUT)
    found["usage"] = trajectory.usage.model_dump(exclude_none=True) if trajectory.usage else None
    return found


def facts_apart(trajectory: Trajectory) -> dict[str, Any]:
    """Return the facts and the ids of failed calls, for formats whose messages cannot mark a failure."""
    found = facts(trajectory)
    failed = [message.tool_call_id for message in trajectory.messages if message.is_error]
    return {**found, "failed_calls": failed} if failed else found


def fact_columns() -> dict[str, Column]:
    """Return the columns that `facts` fills."""
    return {
        name: _column(field.annotation)
        for name, field in Trajectory.model_fields.items()
        if name not in _LEFT_OUT
    }


def _column(annotation: Any) -> Column:
    for kind, column in _COLUMNS.items():
        if annotation in (kind, kind | None):
            return column
    return "json"
