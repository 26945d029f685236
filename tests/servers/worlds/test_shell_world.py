"""The tools of worlds that are a machine: how their arguments are read."""

from typing import cast

import pytest

from mcp_bench.servers.contracts import JSON
from mcp_bench.servers.mcp_server.arguments import ArgumentValidator
from mcp_bench.servers.sandbox import CommandResult, Sandbox
from mcp_bench.servers.worlds.shell_world import BASH, READ_FILE, ShellWorld

pytestmark = [pytest.mark.unit, pytest.mark.anyio]


class Machine:
    """A stand-in for a sandbox with one file."""

    over = ""
    limit: float | None = None

    async def run(self, command: str, *, seconds: float | None = None, **_: object) -> CommandResult:
        self.limit = seconds
        return CommandResult(code=0, output="")

    async def read(self, path: str) -> bytes:
        return b"one\ntwo\nthree\nfour\n"


async def test_a_whole_number_with_a_point_is_an_integer() -> None:
    """A model writes 300.0, and the schema accepts it."""
    machine = Machine()
    world = ShellWorld(cast(Sandbox, machine))
    command: dict[str, JSON] = {"command": "make", "seconds": 300.0}
    part: dict[str, JSON] = {"path": "a", "first": 2.0, "lines": 2.0}
    assert not ArgumentValidator(BASH).problems(command) + ArgumentValidator(READ_FILE).problems(part)
    await world.call("bash", command)
    assert machine.limit == 300
    assert (await world.call("read_file", part)).text == "two\nthree\n"
