"""The experience server on stdio and on streamable HTTP."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable

import anyio
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

from mcp_bench.bridge.experience.tools import READS, Experience
from mcp_bench.bridge.http.access import AccessRules
from mcp_bench.bridge.http.listen import bind, listen, url_host
from mcp_bench.bridge.http.token import below, listener_token
from mcp_bench.bridge.interactive.clients import stop_on_signal
from mcp_bench.bridge.interactive.http_server import HttpOptions
from mcp_bench.servers.contracts import JSON, ToolResult
from mcp_bench.servers.mcp_server.server import Context, WorldSession, build_server
from mcp_bench.servers.mcp_server.stdio import serve_stdio

NAME = "experience"
IDLE_SECONDS = 3600.0
"""Without a request, after which a session ends."""


class ManyReaders(WorldSession):
    """Runs tools that only read at the same time: a replay takes minutes. Others run one after the other."""

    async def call(
        self, name: str, arguments: dict[str, JSON], on_execute: Callable[[], object] | None = None
    ) -> ToolResult:
        if name not in READS:
            return await super().call(name, arguments, on_execute)
        self.calls += 1
        return self._refused(name, arguments) or await self._execute(name, arguments, on_execute)


async def on_stdio(experience: Experience) -> None:
    """Serve one client until it closes its end."""
    await serve_stdio(ManyReaders(experience), name=NAME)


async def on_http(experience: Experience, options: HttpOptions, say: Callable[[str], object]) -> None:
    """Serve clients until a signal arrives. What still reads then is not waited for.

    Args:
        say: gets the URL, with the token in it unless the options name one.

    Raises:
        BenchError: it cannot listen on the address.
    """
    session = ManyReaders(experience)

    async def session_of(context: Context) -> WorldSession:
        return session

    token = options.token or listener_token()
    manager = StreamableHTTPSessionManager(
        build_server(session_of, name=NAME),
        session_idle_timeout=options.idle,
        max_request_body_size=options.max_body,
        max_sessions=options.max_sessions,
    )
    with contextlib.closing(bind(options.host, options.port)) as listener:
        port = listener.getsockname()[1]
        app = AccessRules(manager.handle_request, options.host, port, token=token, max_body=options.max_body)
        async with manager.run(), anyio.create_task_group() as tasks:
            with anyio.CancelScope() as serving:
                tasks.start_soon(stop_on_signal, serving)
                await tasks.start(lambda task_status: listen(app, listener, task_status=task_status))
                url = f"http://{url_host(options.host)}:{port}"
                say(f"{url if options.token else below(token, url)}/mcp")
                await anyio.sleep_forever()
            tasks.cancel_scope.cancel()
    if experience.reading:  # Python would wait for the threads of a replay
        sys.stdout.flush()
        os._exit(0)
