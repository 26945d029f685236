"""All isolation levels by name. Each is the `LEVEL` of the module with its name, but `in-process`."""

from __future__ import annotations

from importlib import import_module

from mcp_bench.bridge.isolation.level import Level
from mcp_bench.bridge.isolation.none import WITHIN
from mcp_bench.recorder.isolation_levels import LEVELS

BY_NAME: dict[str, Level] = {name: import_module(f"{__package__}.{name}").LEVEL for name in LEVELS}
BY_NAME[WITHIN.name] = WITHIN
