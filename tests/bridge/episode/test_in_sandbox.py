"""An agent inside a sandbox answers for what it ends there, and not for what setting the task up ended."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mcp_bench.bridge.episode.in_sandbox import door_of
from mcp_bench.bridge.sandbox.bwrap import BwrapSandbox
from mcp_bench.servers.sandbox import HOST_BASE, Enforced, SandboxSpec
from mcp_bench.servers.worlds.shell_world import ShellWorld

pytestmark = pytest.mark.unit


class Entered(BwrapSandbox):
    enforced = Enforced(
        engine="bwrap",
        version="1",
        user="uid:1",
        network="none",
        memory="cgroup",
        cpus="cgroup",
        base=HOST_BASE,
    )


def test_only_deaths_after_the_agent_came_are_its_own() -> None:
    pipe: Any = None
    sandbox = Entered(SandboxSpec(), pipe, pipe, Path())
    sandbox.door, sandbox.deaths = {"workdir": "/work"}, 2
    door = door_of(ShellWorld(sandbox))
    assert not door.killed_all()
    sandbox.deaths += 1
    assert door.killed_all()
