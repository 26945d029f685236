"""A report that cannot be read is none; a machine that has gone says nothing of the tests."""

import hmac
from typing import cast

import pytest

from mcp_bench.servers.errors import SandboxError, SandboxLostError
from mcp_bench.servers.hidden_tests.report import read_report
from mcp_bench.servers.sandbox import Sandbox

pytestmark = [pytest.mark.anyio, pytest.mark.unit]
KEY = b"key"


class Written:
    """A stand-in for a sandbox with a report."""

    def __init__(self, text: str) -> None:
        self.text = text.encode()

    async def read(self, *_: object, **__: object) -> bytes:
        return hmac.digest(KEY, self.text, "sha256").hex().encode() + b"\n" + self.text


async def test_only_newlines_end_the_lines_of_a_report() -> None:
    """Other ends of lines in a test's name report nothing of another test."""
    outcomes = {f"a.py::test_one[{end}passed a.py::test_two]": "passed" for end in "\r\x85\u2028\u2029"}
    outcomes["a.py::test_two"] = "failed"
    text = "\n".join(f"{outcome} {name}" for name, outcome in outcomes.items())
    assert await read_report(cast("Sandbox", Written(text)), "/report", KEY) == outcomes


class Failing:
    def __init__(self, error: SandboxError) -> None:
        self.error = error

    async def read(self, *_: object, **__: object) -> bytes:
        raise self.error


async def test_a_missing_report_is_none_and_a_lost_machine_an_error() -> None:
    assert await read_report(cast("Sandbox", Failing(SandboxError("no such file"))), "/report", b"") is None
    with pytest.raises(SandboxLostError):
        await read_report(cast("Sandbox", Failing(SandboxLostError("the runner has gone"))), "/report", b"")
