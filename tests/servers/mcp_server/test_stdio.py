"""The server on standard input and output, started as an agent's configuration starts it."""

import json
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from mcp import Client, StdioServerParameters

from tests.support import ROOT
from tests.support.processes.one_socket import on_one_socket

pytestmark = pytest.mark.component

SERVER = f"""
import sys
sys.path.append({str(ROOT)!r})
import anyio
from tests.support.notebook import NotebookWorld
from mcp_bench.servers.mcp_server.stdio import serve_stdio
from mcp_bench.servers.mcp_server.world_session import WorldSession

async def main():
    await serve_stdio(WorldSession(NotebookWorld(1)), name="workspace")
    print("back")          # standard output is the process's own again

anyio.run(main)
"""
COMMAND = [sys.executable, "-I", "-c", SERVER]


@pytest.mark.anyio
@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_client_starts_the_server_and_calls(mode: str) -> None:
    async with Client(StdioServerParameters(command=COMMAND[0], args=COMMAND[1:]), mode=mode) as client:
        assert (await client.call_tool("say", {"text": "noise"})).content[0].text == "said"  # type: ignore[union-attr]
        big = await client.call_tool("repeat", {"text": "x", "times": 2_000_000})
        assert len(big.content[0].text) == 2_000_000  # type: ignore[union-attr]


def test_stray_prints_do_not_reach_the_client() -> None:
    client = {"name": "raw", "version": "1"}
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client}
    say = {"name": "say", "arguments": {"text": "stray print"}}
    with subprocess.Popen(
        COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as server:
        assert server.stdin and server.stdout and server.stderr
        answers = []
        for number, (method, params) in enumerate([("initialize", hello), ("tools/call", say)]):
            request = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
            server.stdin.write(json.dumps(request) + "\n")
            server.stdin.flush()
            answers.append(json.loads(server.stdout.readline()))
        server.stdin.close()
        rest, errors = server.stdout.read(), server.stderr.read()
    assert [answer["id"] for answer in answers] == [0, 1]
    assert answers[1]["result"]["content"][0]["text"] == "said"
    assert "stray print" in errors
    assert rest == "back\n"  # the server ended with its client and restored standard output
    assert server.returncode == 0


def requests(*calls: tuple[str, dict[str, object]]) -> list[bytes]:
    client = {"name": "raw", "version": "1"}
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client}
    messages = [("initialize", hello)] + [
        ("tools/call", {"name": name, "arguments": arguments}) for name, arguments in calls
    ]
    return [
        json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}).encode() + b"\n"
        for number, (method, params) in enumerate(messages)
    ]


def test_input_and_output_can_be_one_socket() -> None:
    """Launchers written for Node do this. Nothing is lost if the client reads late."""
    big = "é" * 300_000
    lines = requests(
        ("write", {"page": 1, "text": big}), ("read", {"page": 1}), ("repeat", {"text": big, "times": 9})
    )
    with on_one_socket(COMMAND, 60) as (ours, server), ours.makefile("rb") as answers:
        ours.sendall(b"".join(lines))
        found = {answer["id"]: answer for answer in (json.loads(answers.readline()) for _ in lines)}
        ours.shutdown(socket.SHUT_WR)
        assert answers.read() == b"back\n"
    assert server.returncode == 0
    assert found[2]["result"]["content"][0]["text"] == big
    assert found[3]["result"]["content"][0]["text"] == big * 9


def test_input_and_output_can_be_non_blocking() -> None:
    """Launchers share the open files with the server."""
    lines = requests(("repeat", {"text": "x", "times": 2_000_000}))
    with on_one_socket(COMMAND, 60, blocking=False) as (ours, server), ours.makefile("rb") as answers:
        ours.sendall(b"".join(lines))
        found = {answer["id"]: answer for answer in (json.loads(answers.readline()) for _ in lines)}
        ours.shutdown(socket.SHUT_WR)
        assert answers.read() == b"back\n"
    assert server.returncode == 0
    assert len(found[1]["result"]["content"][0]["text"]) == 2_000_000


def test_a_client_that_breaks_off_has_left() -> None:
    """Node's pipes are sockets: one that its process leaves with unread bytes is reset."""
    ours, theirs = socket.socketpair()
    with subprocess.Popen(COMMAND, stdin=theirs, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as server:
        assert server.stdout and server.stderr
        theirs.sendall(b"unread")
        theirs.close()
        ours.sendall(requests()[0])
        assert json.loads(server.stdout.readline())["id"] == 0
        ours.close()
        assert server.stdout.read() == b"back\n", server.stderr.read().decode()
    assert server.returncode == 0


def test_input_and_output_can_be_files(tmp_path: Path) -> None:
    source, sink = tmp_path / "in", tmp_path / "out"
    source.write_bytes(b"".join(requests(("read", {"page": 1}))))
    with source.open("rb") as stdin, sink.open("wb") as stdout:
        subprocess.run(COMMAND, stdin=stdin, stdout=stdout, timeout=60, check=True)
    *answers, last = sink.read_bytes().splitlines()
    # the file can end before the call is done; the call is still answered
    assert sorted(json.loads(answer)["id"] for answer in answers) == [0, 1]
    assert last == b"back"


def test_endless_line_uses_bounded_memory() -> None:
    hello, *_ = requests()
    with subprocess.Popen(COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
        assert server.stdin and server.stdout
        server.stdin.write(b'{"jsonrpc":"2.0","id":"long","method":"ping","params":{"x":"')
        block = b"x" * (1 << 20)
        for _ in range(256):
            server.stdin.write(block)
        server.stdin.flush()
        peak = Path(f"/proc/{server.pid}/status").read_text().partition("VmHWM:")[2].split()[0]
        server.stdin.write(b'"}}\n' + hello)
        server.stdin.flush()
        refused, greeted = json.loads(server.stdout.readline()), json.loads(server.stdout.readline())
        server.stdin.close()
        assert server.stdout.read() == b"back\n"
    assert refused["id"] == "long" and "at most 67108864" in refused["error"]["message"]
    assert greeted["result"]["protocolVersion"] == "2025-11-25"
    assert int(peak) < 300_000  # KiB; the line has 256 MiB
