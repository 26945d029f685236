"""Run mcp-proxy's proxy server with stdio on both sides. Runs in mcp-proxy's environment, not in ours."""

import asyncio
import sys

from mcp import ClientSession, StdioServerParameters, stdio_client
from mcp.server.stdio import stdio_server
from mcp_proxy.proxy_server import create_proxy_server


async def main() -> None:
    parameters = StdioServerParameters(command=sys.argv[1], args=sys.argv[2:])
    async with stdio_client(parameters) as streams, ClientSession(*streams) as session:
        app = await create_proxy_server(session)
        async with stdio_server() as (source, sink):
            await app.run(source, sink, app.create_initialization_options())


asyncio.run(main())
