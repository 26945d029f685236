"""Clients and servers: configuration files, dead servers, and both transports."""

import json
import math
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from mcp_bench.clients.config import StdioEntry, read_config
from mcp_bench.clients.connection import connect
from mcp_bench.clients.events import ClientError
from tests.support import DESK_SERVER
from tests.support.processes.forked import script_command

pytestmark = pytest.mark.component

SERVER = DESK_SERVER
ADD = json.dumps({"calls": [{"name": "add", "arguments": {"a": 1, "b": 2}}], "answer": "3"})


@pytest.fixture
def http_port() -> Iterator[int]:
    with subprocess.Popen(script_command(SERVER, "--http"), stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout
        yield int(server.stdout.readline())
        server.terminate()


def test_a_server_on_http(desk: Any, http_port: int) -> None:
    entry = {"type": "http", "url": f"http://127.0.0.1:{http_port}/mcp", "headers": {"x-token": "t"}}
    result = desk.run("oracle", stdin=ADD, config=desk.configure({"desk": entry}))
    assert (result.code, result.results) == (0, [("3", False)])


def test_one_of_several_servers_is_chosen_by_name(desk: Any) -> None:
    command, *args = script_command(SERVER)
    server = {"command": command, "args": args}
    config = desk.configure({"other": {"command": "/nowhere"}, "desk": server})
    assert desk.run("noop", config=config).code == 2
    assert desk.run("noop", "--server", "desk", config=config).code == 0


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, "cannot read the MCP configuration"),
        ("{", "is not JSON"),
        ("[]", "names no server"),
        ('{"mcpServers": {}}', "names no server"),
        ('{"mcpServers": {"x": []}}', "should be an object"),
        ('{"mcpServers": {"x": {"command": ""}}}', "'command' should be a string"),
        ('{"mcpServers": {"x": {"command": "a", "args": "b"}}}', "'args' should be a list of strings"),
        ('{"mcpServers": {"x": {"command": "a", "env": {"N": 1}}}}', "'env' should be an object of strings"),
        ('{"mcpServers": {"x": {"url": "ftp://x"}}}', "should begin with http"),
        ('{"mcpServers": {"x": {"type": "sse", "url": "http://x"}}}', "'sse' is not supported"),
    ],
)
def test_a_bad_configuration_is_told(tmp_path: Path, text: str | None, words: str) -> None:
    path = tmp_path / "bad.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(ClientError, match=re.escape(words)) as raised:
        read_config(path)
    assert raised.value.kind == "usage"
    assert str(path) in raised.value.detail


def test_a_bad_configuration_is_wrong_use(desk: Any, tmp_path: Path) -> None:
    result = desk.run("noop", config=tmp_path / "none.json")
    ((kind, detail),) = result.errors
    assert (result.code, kind) == (2, "usage")
    assert result.stderr == f"Error: {detail}\n"


@pytest.mark.parametrize(
    "entry",
    [
        {"command": "/no/such/server"},
        {"command": sys.executable, "args": ["-c", "raise SystemExit(7)"]},
        {"command": sys.executable, "args": ["-c", "print('hello')"]},
        {"type": "http", "url": "http://127.0.0.1:9/mcp"},
    ],
    ids=["missing", "exits", "no-mcp", "refuses"],
)
def test_a_server_that_is_not_there_is_a_clean_failure(desk: Any, entry: dict[str, Any]) -> None:
    result = desk.run("noop", config=desk.configure({"desk": entry}))
    ((kind, detail),) = result.errors
    assert (result.code, kind) == (1, "mcp")
    assert "'desk'" in detail


def test_a_server_that_never_answers_is_given_up(desk: Any) -> None:
    silent = {"command": sys.executable, "args": ["-c", "import sys; sys.stdin.read()"]}
    result = desk.run("noop", "--connect-timeout", "0.5", config=desk.configure({"desk": silent}))
    assert (result.code, result.errors) == (1, [("mcp", "MCP server 'desk': no answer within 0.5 seconds")])


@pytest.mark.anyio
async def test_the_time_to_connect_does_not_limit_the_work() -> None:
    command, *args = script_command(SERVER)
    async with connect(StdioEntry("desk", command, tuple(args)), 60) as connection:
        assert anyio.current_effective_deadline() == math.inf
        assert (await connection.call("add", {"a": 1, "b": 2})).text == "3"


def test_a_server_that_dies_in_a_call_is_a_clean_failure(desk: Any) -> None:
    calls = {"calls": [{"name": "leave"}, {"name": "add", "arguments": {"a": 1, "b": 1}}]}
    result = desk.run("oracle", stdin=json.dumps(calls))
    assert (result.code, result.journal) == (1, [("leave", {})])
    ((kind, detail),) = result.errors
    assert kind == "mcp" and "leave" in detail
    assert "Traceback" not in result.stderr


def test_a_server_on_http_that_dies_in_a_call_is_one_too(desk: Any, http_port: int) -> None:
    entry = {"type": "http", "url": f"http://127.0.0.1:{http_port}/mcp"}
    calls = json.dumps({"calls": [{"name": "leave"}]})
    result = desk.run("oracle", stdin=calls, config=desk.configure({"desk": entry}))
    ((kind, detail),) = result.errors
    assert (result.code, kind) == (1, "mcp")
    assert detail.startswith("MCP server 'desk': the connection was lost: ")
    assert "Traceback" not in result.stderr
