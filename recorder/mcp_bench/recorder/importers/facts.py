"""The facts that our own exports carry beside a conversation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mcp_bench.recorder.trajectory import Usage

_KINDS: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(("benchmark", "split", "agent", "model"), (str,)),
    "seed": (int,),
    **dict.fromkeys(("partial", "strict"), (str, int, float)),
    "trainable": (bool,),
}
"""Facts that rows of other tools can state as well, and of what type. `Attempt` checks their values."""
_NAMES = ("task", "domain", "id")
_OURS = {"isolation", "taint"}
"""Keys of every row of ours."""


def facts(exported: Any) -> dict[str, Any]:
    """Return the facts that are fields of `Attempt`, by field name. Missing facts are left out.

    A row of another tool can have keys of the same names that mean something else. What has another type than
    the fact is left out, too, but in a row of ours it stays, and the row is refused.
    """
    if not isinstance(exported, Mapping):
        return {}
    ours = exported.keys() >= _OURS
    found = {
        name: exported[name]
        for name, kind in _KINDS.items()
        if exported.get(name) is not None and (ours or isinstance(exported[name], kind))
    }
    found |= {name: str(exported[name]) for name in _NAMES if exported.get(name) is not None}
    if isinstance(exported.get("usage"), Mapping):
        usage = {name: exported["usage"].get(name) for name in Usage.model_fields}
        if not ours:
            usage = {name: value for name, value in usage.items() if _is_count(name, value)}
        if any(value is not None for value in usage.values()):
            found["usage"] = usage
    return found


def _is_count(name: str, value: Any) -> bool:
    return isinstance(value, int) or (name == "cost_usd" and isinstance(value, float))


def failed_calls(exported: Any) -> list[str]:
    calls = exported.get("failed_calls") if isinstance(exported, Mapping) else None
    return [str(call) for call in calls] if isinstance(calls, list) else []
