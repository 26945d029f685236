"""Backend that starts the operator's server command for each connection."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path

import anyio
from anyio.abc import ByteReceiveStream, ByteSendStream
from mcp_types import RequestId

from mcp_bench.bridge.process.agent import AgentProcess, LaunchError, piped_process
from mcp_bench.bridge.wire.backend import BackendConnection, Deliver
from mcp_bench.recorder.records import Termination

END_SECONDS = 3.0
"""Time for a server to exit after the end of its input, and again after SIGTERM."""


class CommandBackend:
    """Run a command outside the agent's process tree, with the operator's environment."""

    answers_before_eof = False
    tools: tuple[str, ...] = ()

    def __init__(self, command: Sequence[str], environ: Mapping[str, str], stderr: Path) -> None:
        """Set up the backend. The server's stderr goes to the file `stderr`."""
        self.arguments: Mapping[str, tuple[str, ...]] = {}
        self.fault: str | None = None
        """How a server failed while the agent was connected. Only the first failure is kept."""
        self._command = tuple(command)
        self._environ = dict(environ)
        self._stderr = stderr

    @asynccontextmanager
    async def connect(
        self, deliver: Deliver, on_execute: Callable[[RequestId], None]
    ) -> AsyncIterator[BackendConnection]:
        async with AsyncExitStack() as stack:
            try:
                process, stdin, stdout = await stack.enter_async_context(piped_process(self._stderr))
                await process.launch(self._command, self._environ, Path.cwd(), file_bytes=None)
            except LaunchError as error:
                self._set_fault(f"The server: {error}")
                yield _NoConnection()
                return
            connection = _ProcessConnection(process, stdin)
            try:
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(connection.read, stdout, deliver)
                    yield connection
                    tasks.cancel_scope.cancel()
            finally:
                await end_gently(process, stdin)
                if connection.died:
                    self._set_fault(f"The server ended with exit code {process.exit_code}")

    async def cut_off(self) -> Termination:
        """Wait forever: calls are not limited, and a server is never over."""
        await anyio.sleep_forever()
        raise AssertionError

    def _set_fault(self, fault: str) -> None:
        self.fault = self.fault or f"{fault} while the agent was connected; its stderr is in {self._stderr}"


class _ProcessConnection:
    def __init__(self, process: AgentProcess, stdin: ByteSendStream) -> None:
        self.died = False
        """Whether the server ended before the agent's side did."""
        self._process = process
        self._stdin = stdin
        self._client_left = False
        self._takes_input = True
        self._over = anyio.Event()

    async def send(self, chunk: bytes, /) -> None:
        try:
            await self._stdin.send(chunk)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            self._takes_input = False
            raise

    async def flush(self) -> None:
        pass  # it has the bytes already

    async def send_eof(self) -> None:
        self._client_left = self._takes_input
        with suppress(OSError, anyio.BrokenResourceError):
            await self._stdin.aclose()

    async def ended(self) -> None:
        await self._over.wait()

    async def read(self, stdout: ByteReceiveStream, deliver: Deliver) -> None:
        """Deliver the server's output until it ends.

        Once the server exits, its descendants that hold the output open are killed. A server that closes
        its output but keeps running counts as ended.
        """
        silent, exited = anyio.Event(), anyio.Event()

        async def forward() -> None:
            try:
                async for chunk in stdout:
                    await deliver(chunk)
            except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                self._client_left = True
            silent.set()

        async def wait() -> None:
            await self._process.wait()
            with anyio.CancelScope(shield=True):
                await self._process.end()
            exited.set()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(forward)
            tasks.start_soon(wait)
            await silent.wait()
            with anyio.move_on_after(END_SECONDS):
                await exited.wait()
            tasks.cancel_scope.cancel()
        self.died = not self._client_left
        self._over.set()


class _NoConnection:
    """Stand-in for a server that could not be started. The connection ends at once."""

    async def send(self, chunk: bytes, /) -> None:
        pass

    async def flush(self) -> None:
        pass

    async def send_eof(self) -> None:
        pass

    async def ended(self) -> None:
        pass


async def end_gently(process: AgentProcess, stdin: ByteSendStream) -> None:
    """Let a server exit by itself, then send SIGTERM. The caller kills what is left."""
    with anyio.CancelScope(shield=True):
        with suppress(OSError, anyio.BrokenResourceError):
            await stdin.aclose()
        with anyio.move_on_after(END_SECONDS):
            await process.wait()
        if process.exit_code is None:
            await process.stop(END_SECONDS)
            with anyio.move_on_after(END_SECONDS):
                await process.wait()
