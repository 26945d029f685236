"""The facts that our own exports carry beside a conversation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mcp_bench.recorder.trajectory import Usage

_SAME = ("benchmark", "split", "domain", "agent", "model", "seed", "partial", "strict", "id")


def facts(exported: Any) -> dict[str, Any]:
    """Return the facts that are fields of `Attempt`, by field name. Missing facts are left out."""
    if not isinstance(exported, Mapping):
        return {}
    found = {name: exported[name] for name in _SAME if exported.get(name) is not None}
    if isinstance(exported.get("usage"), Mapping):
        usage = {name: exported["usage"].get(name) for name in Usage.model_fields}
        if any(value is not None for value in usage.values()):
            found["usage"] = usage
    if exported.get("task") is not None:
        found["task"] = str(exported["task"])
    return found


def failed_calls(exported: Any) -> list[str]:
    calls = exported.get("failed_calls") if isinstance(exported, Mapping) else None
    return [str(call) for call in calls] if isinstance(calls, list) else []
