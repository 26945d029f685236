"""What another machine keeps of our code, and for how long one that failed is left out."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import anyio
import pytest

from mcp_bench.bridge.sandbox.runners.configured import Runner, leased
from mcp_bench.bridge.sandbox.runners.remote import BOOT, code
from mcp_bench.servers.errors import SandboxError
from mcp_bench.servers.home import home

pytestmark = pytest.mark.component


def test_a_copy_of_the_code_that_is_not_needed_goes(tmp_path: Path) -> None:
    """Another start was faster. Here, a file is in the place, so that the new folder cannot get it."""
    kept = tmp_path / ".cache/mcp-bench/code"
    kept.mkdir(parents=True)
    (kept / "key").touch()
    sent = f"{len(code())} key\n".encode() + code()
    subprocess.run(
        [sys.executable, "-I", "-S", "-c", BOOT],
        input=sent,
        env={"HOME": str(tmp_path)},
        stderr=subprocess.DEVNULL,
        timeout=60,
        check=False,
    )
    assert [path.name for path in kept.iterdir()] == ["key"]


@pytest.mark.parametrize(("age", "left_out"), [(10, True), (61, False), (-3600, False)])
def test_a_mark_of_the_future_leaves_no_machine_out(age: int, left_out: bool) -> None:
    """A clock that was set back leaves one."""
    mark = home() / "runners/box.failed"
    mark.parent.mkdir(parents=True)
    mark.write_text("it failed")
    os.utime(mark, (time.time() - age,) * 2)

    async def take() -> str:
        async with leased([Runner(name="box", kind="local")], {}) as slot:
            return slot.runner.name

    if left_out:
        with pytest.raises(SandboxError, match="no runner works: box: it failed"):
            anyio.run(take)
    else:
        assert anyio.run(take) == "box"
