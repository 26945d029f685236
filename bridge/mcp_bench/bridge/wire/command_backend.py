"""A server of the operator's choice at the far end of a wire: started for each connection."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path

import anyio
from anyio.abc import ByteReceiveStream, ByteSendStream
from mcp_types import RequestId

from mcp_bench.bridge.process.agent import AgentProcess, LaunchError, piped_process
from mcp_bench.bridge.wire.backend import BackendConnection, Deliver

END_SECONDS = 3.0
"""For a server to end by itself once its input has ended, and again once it was asked to (SIGTERM)."""


class CommandBackend:
    """Runs a command outside the agent's process tree, with the operator's environment."""

    answers_before_eof = False
    tools: tuple[str, ...] = ()

    def __init__(self, command: Sequence[str], environ: Mapping[str, str], stderr: Path) -> None:
        """Set up the far end of an episode. `stderr` is the file that the server's stderr goes to."""
        self.fault: str | None = None
        """How a server ended though the agent had not; the first one counts."""
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
                self._blame(f"The server: {error}")
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
                    self._blame(f"The server ended with exit code {process.exit_code}")

    async def limit_reached(self) -> None:
        """Nobody counts the calls."""
        await anyio.sleep_forever()

    def _blame(self, fault: str) -> None:
        self.fault = self.fault or f"{fault} while the agent was connected; its stderr is in {self._stderr}"


class _ProcessConnection:
    def __init__(self, process: AgentProcess, stdin: ByteSendStream) -> None:
        self.died = False
        """Whether it ended before the agent's side did."""
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

    async def send_eof(self) -> None:
        self._client_left = self._takes_input
        with suppress(OSError, anyio.BrokenResourceError):
            await self._stdin.aclose()

    async def ended(self) -> None:
        await self._over.wait()

    async def read(self, stdout: ByteReceiveStream, deliver: Deliver) -> None:
        """Deliver its output until it ends. When the server is gone, so is whoever holds it open; a server
        that closes it and lives on is of no more use."""
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
    """Stands in for a server that could not be started: the connection ends at once."""

    async def send(self, chunk: bytes, /) -> None:
        pass

    async def send_eof(self) -> None:
        pass

    async def ended(self) -> None:
        pass


async def end_gently(process: AgentProcess, stdin: ByteSendStream) -> None:
    """Give a server time to end by itself, then ask it to; what is left then is the caller's to kill."""
    with anyio.CancelScope(shield=True):
        with suppress(OSError, anyio.BrokenResourceError):
            await stdin.aclose()
        with anyio.move_on_after(END_SECONDS):
            await process.wait()
        if process.exit_code is None:
            await process.stop(END_SECONDS)
            with anyio.move_on_after(END_SECONDS):
                await process.wait()
