"""A report that cannot be read is none; a machine that has gone says nothing of the tests."""

from typing import cast

import pytest

from mcp_bench.servers.errors import SandboxError, SandboxLostError
from mcp_bench.servers.hidden_tests.report import read_report
from mcp_bench.servers.sandbox import Sandbox

pytestmark = [pytest.mark.anyio, pytest.mark.unit]


class Failing:
    def __init__(self, error: SandboxError) -> None:
        self.error = error

    async def read(self, *_: object, **__: object) -> bytes:
        raise self.error


async def test_a_missing_report_is_none_and_a_lost_machine_an_error() -> None:
    assert await read_report(cast("Sandbox", Failing(SandboxError("no such file"))), "/report", b"") is None
    with pytest.raises(SandboxLostError):
        await read_report(cast("Sandbox", Failing(SandboxLostError("the runner has gone"))), "/report", b"")
