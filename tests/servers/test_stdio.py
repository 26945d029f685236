"""The server on standard input and output, as an agent's configuration would start it."""

import sys
from pathlib import Path

import pytest
from mcp import Client, StdioServerParameters

pytestmark = pytest.mark.anyio

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


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_stray_prints_stay_off_the_wire(mode: str) -> None:
    server = StdioServerParameters(command=sys.executable, args=["-I", "-c", SERVER])
    async with Client(server, mode=mode) as client:
        said = await client.call_tool("say", {"text": '{"jsonrpc": "2.0", "id": 1, "result": {}}'})
        assert said.content[0].text == "said"  # type: ignore[union-attr]
        big = await client.call_tool("repeat", {"text": "x", "times": 2_000_000})
        assert len(big.content[0].text) == 2_000_000  # type: ignore[union-attr]
