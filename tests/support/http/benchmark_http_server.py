"""Our MCP server over streamable HTTP, for a world with the tools that the conformance suite calls.

`python benchmark_http_server.py` listens on a free port of 127.0.0.1 and prints the URL.
"""

import contextlib
import logging
from collections.abc import Sequence
from functools import partial

import anyio
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

from mcp_bench.bridge.http.access import AccessRules
from mcp_bench.bridge.http.listen import bind, listen
from mcp_bench.servers.contracts import JSON, ToolResult, ToolSpec
from mcp_bench.servers.grading import Grade
from mcp_bench.servers.mcp_server.server import WorldSession, build_server
from mcp_bench.servers.progress import report_progress
from tests.support.conformance.conformance_server import JSON_SCHEMA_2020_12

HOST = "127.0.0.1"
EMPTY: dict[str, JSON] = {"type": "object", "properties": {}}
REGION: dict[str, JSON] = {"type": "string", "x-mcp-header": "Region"}


class ToolsWorld:
    """A world that has only tools, with the names that the suite expects."""

    def tools(self) -> Sequence[ToolSpec]:
        schemas = {
            "test_simple_text": EMPTY,
            "test_error_handling": EMPTY,
            "test_tool_with_progress": EMPTY,
            "test_x_mcp_header": {"type": "object", "properties": {"region": REGION}},
            "json_schema_2020_12_tool": JSON_SCHEMA_2020_12,
        }
        return [
            ToolSpec(name=name, description=f"{name}.", input_schema=schema)
            for name, schema in schemas.items()
        ]

    async def call(self, name: str, arguments: dict[str, JSON]) -> ToolResult:
        if name == "test_error_handling":
            return ToolResult(text="This tool intentionally returns an error for testing", is_error=True)
        if name == "test_tool_with_progress":
            for done in (0, 50, 100):
                await report_progress(done, 100, f"Completed step {done} of 100")
        return ToolResult(text="This is a simple text response for testing.")

    async def grade(self, answer: str) -> Grade:
        return Grade(partial=1, strict=True, grader_version="1")

    async def snapshot(self) -> JSON:
        return None

    async def close(self) -> None: ...


async def main() -> None:
    manager = StreamableHTTPSessionManager(build_server(WorldSession(ToolsWorld()), name="bench"))
    with contextlib.closing(bind(HOST, 0)) as listener:
        port = listener.getsockname()[1]
        async with manager.run(), anyio.create_task_group() as tasks:
            app = AccessRules(manager.asgi_app, HOST, port)
            await tasks.start(partial(listen, app, listener, drain=1))
            print(f"http://{HOST}:{port}/mcp", flush=True)


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    anyio.run(main)
