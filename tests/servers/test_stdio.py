"""The server on standard input and output, as an agent's configuration would start it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from mcp import Client, StdioServerParameters

SERVER = f"""
import sys
sys.path.append({str(Path(__file__).parents[1] / "support")!r})
import anyio
from notebook import NotebookWorld
from mcp_bench.servers.stdio import serve_stdio
from mcp_bench.servers.world_session import WorldSession

async def main():
    await serve_stdio(WorldSession(NotebookWorld(1)), name="workspace")
    print("back")          # standard output is the process's own again

anyio.run(main)
"""
COMMAND = [sys.executable, "-I", "-c", SERVER]


@pytest.mark.anyio
@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_a_client_starts_it_and_calls(mode: str) -> None:
    async with Client(StdioServerParameters(command=COMMAND[0], args=COMMAND[1:]), mode=mode) as client:
        assert (await client.call_tool("say", {"text": "noise"})).content[0].text == "said"  # type: ignore[union-attr]
        big = await client.call_tool("repeat", {"text": "x", "times": 2_000_000})
        assert len(big.content[0].text) == 2_000_000  # type: ignore[union-attr]


def test_stray_prints_stay_off_the_wire() -> None:
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
    assert rest == "back\n"  # the server ended with its client, and standard output is given back
    assert server.returncode == 0
