"""What a task demands of a solution is kept only when the tests came to their end."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import anyio
import pytest

from mcp_bench.servers.errors import SandboxError
from mcp_bench.servers.harbor import demands
from mcp_bench.servers.harbor.folder import read_folder
from mcp_bench.servers.hidden_tests import fresh
from mcp_bench.servers.home import home
from mcp_bench.servers.sandbox import CommandResult, Sandbox
from tests.support.task_folders import harbor_task

pytestmark = pytest.mark.component


class Obeying:
    """A stand-in for a sandbox in which nothing runs."""

    over = ""

    async def run(self, *_: object, **__: object) -> CommandResult:
        return CommandResult(output="", code=0)

    async def write(self, *_: object, **__: object) -> None:
        return


async def opened() -> Sandbox:
    return cast("Sandbox", Obeying())


@pytest.mark.parametrize(("late", "kept"), [((True, False), 0), ((False, True), 0), ((False, False), 1)])
def test_tests_that_did_not_end_are_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, late: tuple[bool, bool], kept: int
) -> None:
    """Of the run over untouched files, and of that over the solution's."""
    runs = iter(
        fresh.TestRun(
            {"a": outcome}, CommandResult(output="", code=0, timed_out=timed_out), {"reward.txt": reward}
        )
        for timed_out, outcome, reward in zip(late, ("failed", "passed"), ("0", "1"), strict=True)
    )

    async def run(*_: object, **__: object) -> fresh.TestRun:
        return next(runs)

    async def left(_: object) -> list[object]:
        return []

    monkeypatch.setattr(demands, "run_tests", run)
    monkeypatch.setattr(demands, "left", left)
    task = read_folder(harbor_task(tmp_path / "a"), "a")
    if kept:
        assert anyio.run(demands.demands_of, task, "base", "/app", opened).tests == ("a",)
    else:
        with pytest.raises(
            SandboxError, match=r"'a' cannot be graded here: its tests did not end within 60 s"
        ):
            anyio.run(demands.demands_of, task, "base", "/app", opened)
    assert len(list((home() / "harbor" / "demands").glob("*.json"))) == kept
