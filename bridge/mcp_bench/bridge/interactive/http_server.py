"""Serve clients over streamable HTTP: the SDK's server and transport, with recording and access rules."""

from __future__ import annotations

import contextlib
import logging
from dataclasses import dataclass
from functools import partial

import anyio
from anyio.abc import TaskStatus
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.requests import Request

from mcp_bench.bridge.http.access import AccessRules
from mcp_bench.bridge.http.listen import bind, listen, url_host
from mcp_bench.bridge.http.token import below, listener_token
from mcp_bench.bridge.interactive.client import ClientTools
from mcp_bench.bridge.interactive.clients import Clients, stop_on_signal
from mcp_bench.bridge.interactive.http_sessions import (
    EXCHANGE,
    AddressOf,
    HttpExchange,
    HttpSessions,
    one_benchmark,
)
from mcp_bench.bridge.interactive.run import TaskChoice
from mcp_bench.bridge.wire.backend import SERVER_NAME
from mcp_bench.servers.mcp_server.server import Context, build_server

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class HttpOptions:
    """Address and limits of the HTTP listener."""

    host: str
    port: int
    token: str | None
    """The token that every request must show. None: the one in the home."""
    max_sessions: int
    max_body: int
    """Limit in bytes of one request."""
    idle: float
    """Seconds without a request after which a session ends, and without a call after which a task ends."""


async def session_of(context: Context) -> ClientTools:
    """Return the tools of the client that a request belongs to."""
    request = context.request
    assert isinstance(request, Request)  # noqa: S101 - always, over streamable HTTP
    exchange = request.scope[EXCHANGE]
    assert isinstance(exchange, HttpExchange)  # noqa: S101 - set by `HttpSessions`
    session = exchange.session
    return ClientTools(session.state.client, session.number, lambda: session.info, request=context.request_id)


async def serve_clients(
    clients: Clients,
    address_of: AddressOf,
    choice: TaskChoice,
    options: HttpOptions,
    *,
    task_status: TaskStatus[str] = anyio.TASK_STATUS_IGNORED,
) -> None:
    """Serve clients until cancelled. Running requests then get a few seconds to finish.

    The task status is the base URL. It contains the token unless the options name one.

    Raises:
        BenchError: it cannot listen on the address.
    """
    token = options.token or listener_token()
    manager = StreamableHTTPSessionManager(
        build_server(session_of, name=SERVER_NAME, prompts=session_of),
        session_idle_timeout=options.idle,
        max_request_body_size=options.max_body,
        max_sessions=options.max_sessions,
    )
    sessions = HttpSessions(
        manager.handle_request, clients, address_of, choice, max_sessions=options.max_sessions
    )
    with contextlib.closing(bind(options.host, options.port)) as listener:
        port = listener.getsockname()[1]
        app = AccessRules(sessions, options.host, port, token=token, max_body=options.max_body)
        try:
            async with manager.run(), anyio.create_task_group() as tasks:
                tasks.start_soon(sessions.sweep, options.idle)
                await tasks.start(lambda task_status: listen(app, listener, task_status=task_status))
                url = f"http://{url_host(options.host)}:{port}"
                task_status.started(url if options.token else below(token, url))
        finally:
            sessions.close()


async def serve_http(benchmark: str, choice: TaskChoice, options: HttpOptions) -> None:
    """Serve a benchmark until a signal arrives; then grade the open tasks.

    Raises:
        BenchError: the benchmark or a task does not exist, or it cannot listen on the address.
    """
    async with anyio.create_task_group() as tasks:
        clients = Clients(tasks, idle=options.idle)
        try:
            with anyio.CancelScope() as serving:
                tasks.start_soon(stop_on_signal, serving)
                await clients.check(benchmark, choice)
                url = await tasks.start(
                    partial(serve_clients, clients, one_benchmark(benchmark), choice, options)
                )
                if options.token is None:
                    logger.info("the URL below is secret: it contains the token of your HTTP listeners")
                else:
                    logger.info("clients need the header Authorization: Bearer and your token")
                logger.info("%s at %s/mcp, named clients at %s/mcp/NAME", benchmark, url, url)
                await anyio.sleep_forever()
        finally:
            await clients.end_tasks()
            tasks.cancel_scope.cancel()
    await clients.close()
