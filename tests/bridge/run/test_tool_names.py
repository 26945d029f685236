"""A benchmark with a tool named like an episode control tool is refused before the run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import anyio
import pytest

from mcp_bench.bridge.interactive.clients import Clients
from mcp_bench.bridge.interactive.run import TaskChoice
from mcp_bench.bridge.run import setup
from mcp_bench.servers.contracts import ToolSpec
from mcp_bench.servers.mcp_server.world_session import ToolTableError, refuse_control
from mcp_bench.servers.registry import load, registered
from mcp_bench.servers.remote import RemoteBenchmark

pytestmark = pytest.mark.component

NO_ARGUMENTS = {"type": "object", "properties": {}}
TOLD = "tool 'Reset' of benchmark 'resetting' has a name that is kept for control"


class Resetting:
    name, version = "resetting", "1"

    def tools(self) -> Sequence[ToolSpec]:
        return [ToolSpec(name=name, description="", input_schema=NO_ARGUMENTS) for name in ("write", "Reset")]


def loads(kind: str, name: str) -> object:
    return Resetting() if (kind, name) == ("benchmark", "resetting") else load(kind, name)  # type: ignore[arg-type]


def test_record_refuses_it(monkeypatch: pytest.MonkeyPatch, bench_home: Path) -> None:
    monkeypatch.setattr(setup, "load", loads)
    with pytest.raises(ToolTableError, match=TOLD):
        setup.start_run(setup.Choices(agent="noop", benchmark="resetting"))
    assert not (bench_home / "runs").exists()


@pytest.mark.anyio
async def test_hand_use_refuses_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mcp_bench.bridge.interactive.clients.load", loads)
    async with anyio.create_task_group() as tasks:
        with pytest.raises(ToolTableError, match=TOLD):
            await Clients(tasks, idle=1.0).check("resetting", TaskChoice())


EXTRAS = {name for name in registered("benchmark") if isinstance(load("benchmark", name), RemoteBenchmark)}
"""They start a worker, which needs packages that may not be installed."""


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.full if name in EXTRAS else ())
        for name in registered("benchmark")
    ],
)
def test_no_benchmark_of_ours_has_such_a_tool(name: str) -> None:
    benchmark = load("benchmark", name)
    if reason := getattr(benchmark, "missing", lambda: None)():
        pytest.skip(reason)
    refuse_control(benchmark.tools())
