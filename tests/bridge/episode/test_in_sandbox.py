"""An agent inside a sandbox answers for what it ends there, and not for what setting the task up ended."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from mcp_bench.bridge.episode.in_sandbox import door_of
from mcp_bench.servers.sandbox import HOST_BASE
from mcp_bench.servers.worlds.shell_world import ShellWorld

pytestmark = pytest.mark.unit


def test_only_deaths_after_the_agent_came_are_its_own() -> None:
    sandbox: Any = SimpleNamespace(
        door={"workdir": "/work"}, deaths=2, over="", enforced=SimpleNamespace(base=HOST_BASE)
    )
    door = door_of(ShellWorld(sandbox))
    assert not door.killed_all()
    sandbox.deaths += 1
    assert door.killed_all()
