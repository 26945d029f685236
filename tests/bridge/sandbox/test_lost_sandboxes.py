"""A sandbox that has gone: whoever grades in it must not take that for what an agent left."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import anyio
import pytest

from mcp_bench.bridge.sandbox.bwrap import BwrapSandbox
from mcp_bench.bridge.sandbox.containers.sandbox import ContainerSandbox
from mcp_bench.servers.errors import SandboxLostError
from mcp_bench.servers.hidden_tests.report import read_report
from mcp_bench.servers.mle.benchmark import SUBMISSION
from mcp_bench.servers.sandbox import Sandbox

pytestmark = [pytest.mark.anyio, pytest.mark.component]


async def lose(sandbox: Sandbox) -> None:
    """End what keeps a sandbox, as a machine without memory does."""
    if isinstance(sandbox, BwrapSandbox):
        supervisor = sandbox.door["supervisor"]
        [keeper] = Path(f"/proc/{supervisor}/task/{supervisor}/children").read_text().split()
        os.kill(int(keeper), signal.SIGKILL)
    else:
        assert isinstance(sandbox, ContainerSandbox)
        await anyio.to_thread.run_sync(sandbox._container.remove)


async def test_what_has_gone_is_not_what_an_agent_left(sandbox: Sandbox) -> None:
    await sandbox.write(SUBMISSION, b"id,liked\n")
    await sandbox.halt()
    await sandbox.renew()
    await lose(sandbox)
    with pytest.raises(SandboxLostError):
        await read_report(sandbox, "/report", b"")
    with pytest.raises(SandboxLostError):
        await sandbox.read(SUBMISSION)
    with pytest.raises(SandboxLostError):
        await sandbox.run("true")
