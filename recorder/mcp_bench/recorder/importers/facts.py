"""The facts that our own exports carry beside a conversation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mcp_bench.recorder.trajectory import Usage

_SAME = ("benchmark", "split", "domain", "agent", "model", "seed", "partial", "strict", "id")


def facts(told: Any) -> dict[str, Any]:
    """Return those that an attempt has, by its field names; what is missing is left out."""
    if not isinstance(told, Mapping):
        return {}
    found = {name: told[name] for name in _SAME if told.get(name) is not None}
    if isinstance(told.get("usage"), Mapping):
        usage = {name: told["usage"].get(name) for name in Usage.model_fields}
        if any(value is not None for value in usage.values()):
            found["usage"] = usage
    if told.get("task") is not None:
        found["task"] = str(told["task"])
    return found


def failed_calls(told: Any) -> list[str]:
    calls = told.get("failed_calls") if isinstance(told, Mapping) else None
    return [str(call) for call in calls] if isinstance(calls, list) else []
