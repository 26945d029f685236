"""`mcp-bench proxy --http PORT URL`: a recording proxy over HTTP, until a signal ends it."""

from __future__ import annotations

import os
import signal

import anyio
import click
from anyio.abc import TaskStatus

from mcp_bench.bridge.http.proxy import serve_http_proxy
from mcp_bench.bridge.proxy.recording import proxy_run
from mcp_bench.recorder.store.database import Durability
from mcp_bench.recorder.store.run_folder import RunFolder

TOKEN = "MCP_BENCH_TOKEN"  # noqa: S105 - the variable's name


def run_http_proxy(url: str, host: str, port: int, durability: Durability) -> int:
    """Forward from `host`:`port` to the server at `url`, and print the URL for clients on stdout.

    Raises:
        WrongUseError: `url` is none, or an address other than loopback has no token.
        BenchError: the address cannot be listened on, or there is no place to record to.
    """
    with RunFolder.create(proxy_run([url], durability)) as run:
        anyio.run(serve_until_stopped, url, host, port, run)
    return 0


async def serve_until_stopped(url: str, host: str, port: int, run: RunFolder) -> None:
    token = os.environ.get(TOKEN) or None
    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async with anyio.create_task_group() as tasks:
            here = await tasks.start(_serve, url, host, port, run, token)
            click.echo(here)
            click.echo(f"recording to {run.path}; end with Ctrl-C", err=True)
            async for _ in signals:
                break
            tasks.cancel_scope.cancel()


async def _serve(
    url: str,
    host: str,
    port: int,
    run: RunFolder,
    token: str | None,
    *,
    task_status: TaskStatus[str] = anyio.TASK_STATUS_IGNORED,
) -> None:
    await serve_http_proxy(url, host, port, run.recording, token=token, task_status=task_status)
