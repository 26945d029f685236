"""What a caller that was cancelled leaves behind: nothing that the next call waits for."""

from __future__ import annotations

import anyio
import pytest

from mcp_bench.bridge.sandbox import session
from mcp_bench.servers.sandbox import Sandbox

pytestmark = [pytest.mark.anyio, pytest.mark.component]
LONG = 4 << 20
"""More than the pipes between the referee and the process inside hold."""


async def test_a_long_message_follows_a_cancelled_read(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both sides would write, and neither would read."""
    monkeypatch.setattr(session, "REPLY_SECONDS", 20.0)  # a write that nobody takes fails then
    with anyio.fail_after(100):
        await sandbox.write("long", b"x" * LONG)
        for steps in (2, 5, 20):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(sandbox.read, "long")
                for _ in range(steps):
                    await anyio.lowlevel.checkpoint()
                tasks.cancel_scope.cancel()
            await sandbox.write("other", b"y" * LONG)
            assert (await sandbox.run("wc -c <other", seconds=20)).output == f"{LONG}\n"
