"""`mcp-bench serve`: one client on standard input and output."""

from __future__ import annotations

import anyio

from mcp_bench.bridge.interactive.clients import Clients
from mcp_bench.bridge.interactive.recorded_stdio import RecordedConnection
from mcp_bench.bridge.interactive.standard_streams import standard_streams
from mcp_bench.bridge.interactive.stop import stop_on_signal
from mcp_bench.bridge.interactive.task_queue import TaskChoice


async def serve_stdio(benchmark: str, choice: TaskChoice, idle: float) -> None:
    """Serve until the client is gone or a signal comes; what is open is then graded.

    Raises:
        BenchError: there is no such benchmark or task, or the recording cannot be written.
    """
    async with anyio.create_task_group() as tasks:
        clients = Clients(tasks, idle=idle)
        try:
            with anyio.CancelScope() as serving:
                tasks.start_soon(stop_on_signal, serving)
                state = await clients.join(benchmark, None, choice, "stdio")
                async with standard_streams() as (source, sink):
                    await RecordedConnection(state.client, source, sink).run()
                await clients.leave(state)
        finally:
            await clients.end_tasks()
            await clients.close()
        tasks.cancel_scope.cancel()
