"""What makes two cells the same: the values that decide the result, and their digest."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

from pydantic import JsonValue

from mcp_bench.bridge.harness.folder import read_harness
from mcp_bench.bridge.model_endpoint.url import without_secrets
from mcp_bench.bridge.roles.prices import read_prices
from mcp_bench.bridge.run.choices import OF_ROLES, URLS, Choices

NOT_PART = frozenset({"max_cost", "note", "run_tags"})
"""Choices that can be changed when a run is resumed, and words about it."""


def values_of(choices: Choices, benchmark_version: str | None) -> dict[str, JsonValue]:
    """Return the choices that are not the default, and the version of the benchmark.

    Defaults are left out, so that an option of a later version of mcp-bench changes no cell. Of files, the
    content counts, wherever they are.

    Raises:
        WrongUseError: a file cannot be read, or is malformed.
    """
    values: dict[str, JsonValue] = {}
    for one in fields(choices):
        value = getattr(choices, one.name)
        if one.name not in NOT_PART and value != _default(one):
            values[one.name] = _json(value)
    for name in URLS:
        if name in values:
            values[name] = without_secrets(getattr(choices, name))
    if choices.harness is not None:
        values["harness"] = str(read_harness(Path(choices.harness)))
    if choices.prices is not None:  # what its models cost: the file may have those of others, too
        prices = read_prices(Path(choices.prices))
        models = {getattr(choices, name) for name in OF_ROLES[::2]} & prices.keys()
        values["prices"] = digest_of({one: prices[one].model_dump(exclude_none=True) for one in models})
    if benchmark_version is not None:
        values["benchmark_version"] = benchmark_version
    return values


def digest_of(values: Mapping[str, JsonValue]) -> str:
    """Return a short hash of the values."""
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:16]


def differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """Return what changed, such as `limit 3 -> 5, model unset -> x`."""
    changed = [name for name in {**before, **now} if before.get(name) != now.get(name)]
    return ", ".join(
        f"{name} {_short(before.get(name))} -> {_short(now.get(name))}" for name in sorted(changed)
    )


def _default(one: Any) -> Any:
    if one.default_factory is not MISSING:
        return one.default_factory()
    return one.default


def _json(value: Any) -> JsonValue:
    if isinstance(value, Mapping):
        return dict(value)
    return list(value) if isinstance(value, Sequence) and not isinstance(value, str) else value


def _short(value: Any) -> str:
    text = "unset" if value is None else value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
