"""The long-lived referee. It serves clients on one Unix socket and control commands on another."""

from __future__ import annotations

import hmac
import json
import logging
import os
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib.metadata import version
from typing import Any

import anyio
from anyio.abc import SocketStream, TaskStatus
from anyio.streams.buffered import BufferedByteReceiveStream
from pydantic import BaseModel, ConfigDict

from mcp_bench.bridge.interactive.clients import Clients, ClientState, stop_on_signal
from mcp_bench.bridge.interactive.control import HELLO_BYTES, PROTOCOL
from mcp_bench.bridge.interactive.http_server import HttpOptions, serve_clients
from mcp_bench.bridge.interactive.http_sessions import every_benchmark
from mcp_bench.bridge.interactive.paths import RefereePaths, take
from mcp_bench.bridge.interactive.run import TaskChoice
from mcp_bench.bridge.interactive.stdio import RecordedConnection
from mcp_bench.bridge.tap.change import Change
from mcp_bench.bridge.wire.peer import peer_of
from mcp_bench.recorder.records import now_us
from mcp_bench.recorder.runs.run_folder import remove_run
from mcp_bench.recorder.verify.resume import resume
from mcp_bench.servers.errors import BenchError
from mcp_bench.servers.terminal.sanitize import sanitize_line

logger = logging.getLogger(__name__)

LOCK_SECONDS = 60.0
"""Limit for waiting on a previous referee, which may still grade its open tasks."""
HELLO_SECONDS = 10.0
SECRET_BYTES = 1 << 10
"""More than a secret takes."""
MAX_CONNECTIONS = 256


class Hello(BaseModel):
    """First line that a client sends."""

    model_config = ConfigDict(extra="forbid")

    protocol: int
    secret: str
    """From the referee's folder, which no sandbox shows. An agent of the same user may reach the socket."""
    benchmark: str
    entry: str | None = None
    split: str | None = None
    tasks: tuple[str, ...] = ()
    seed: int = 0
    limit: int | None = None


class Referee:
    """Serve until a command, a signal or the lack of clients ends it."""

    def __init__(
        self, paths: RefereePaths, *, idle: float, quit_after: float | None, http: HttpOptions | None
    ) -> None:
        """Set up a referee.

        Args:
            paths: Its sockets and locks.
            idle: Seconds without a call after which an open task ends.
            quit_after: Seconds without a client after which the referee ends; None means never.
            http: Where to listen for streamable HTTP, if at all.
        """
        self._paths = paths
        self._idle = idle
        self._quit_after = quit_after
        self._http = http
        self._url: str | None = None
        self._since_us = now_us()
        self._secret = secrets.token_urlsafe(32)
        self._clients: Clients
        self._connections: dict[RecordedConnection, ClientState] = {}
        self._numbers = 0
        self._change = Change()
        self._stopping = anyio.CancelScope()

    async def run(self, listening: Callable[[], None]) -> None:
        """Serve until the end. Call `listening` as soon as clients can connect.

        Raises:
            BenchError: another referee is up.
        """
        lock = await anyio.to_thread.run_sync(take, self._paths.lock, LOCK_SECONDS)
        if lock is None:
            raise BenchError("another referee is up, or has not ended yet: see `mcp-bench status`")
        try:
            self._claim()
            await self._serve(listening)
            for path in (self._paths.runs, self._paths.secret):
                path.unlink(missing_ok=True)
        finally:
            os.close(lock)

    def _claim(self) -> None:
        """Take over from a referee that died: mark its open episodes, and remove its stale files."""
        paths = self._paths
        for run_id in paths.runs.read_text().split() if paths.runs.exists() else ():
            with suppress(BenchError):  # moved away, or another process has resumed it
                with resume(run_id) as run:
                    empty = not run.recording.attempts()
                if empty:
                    remove_run(run.path)
        for stale in (paths.client_socket, paths.control_socket, paths.secret, paths.runs):
            stale.unlink(missing_ok=True)
        descriptor = os.open(paths.secret, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(self._secret)

    def _note_run(self, run_id: str) -> None:
        with self._paths.runs.open("a") as file:
            file.write(run_id + "\n")

    async def _serve(self, listening: Callable[[], None]) -> None:
        async with anyio.create_task_group() as tasks:
            self._clients = Clients(
                tasks, idle=self._idle, on_create=self._note_run, on_request=self._change.announce
            )
            tasks.start_soon(stop_on_signal, self._stopping)
            async with (
                await anyio.create_unix_listener(self._paths.client_socket, mode=0o600) as client_listener,
                await anyio.create_unix_listener(self._paths.control_socket, mode=0o600) as control_listener,
            ):
                if self._http is not None:
                    self._url = await tasks.start(self._serve_http, self._http)
                with self._stopping:
                    async with anyio.create_task_group() as accepting:
                        accepting.start_soon(client_listener.serve, self._handle_client, tasks)
                        accepting.start_soon(control_listener.serve, self._handle_control, tasks)
                        accepting.start_soon(self._end_unused)
                        logger.info("the referee is up, process %d", os.getpid())
                        listening()
                for path in (self._paths.client_socket, self._paths.control_socket):
                    path.unlink(missing_ok=True)  # a client that connects from now on starts a new referee
            await self._clients.end_tasks()
            tasks.cancel_scope.cancel()
        with anyio.CancelScope(shield=True):
            await self._clients.close()
        logger.info("the referee has ended")

    async def _serve_http(self, options: HttpOptions, *, task_status: TaskStatus[str]) -> None:
        await serve_clients(self._clients, every_benchmark, TaskChoice(), options, task_status=task_status)

    async def _end_unused(self) -> None:
        while True:
            with anyio.move_on_after(self._quit_after):
                await self._change.wait()
                continue
            tasks = [state.client.task for state in self._clients.states.values()]
            if not self._connections and not self._clients.requests and not any(tasks):
                logger.info("no client for %.0f seconds", self._quit_after)
                self._stopping.cancel()

    # Clients -------------------------------------------------------------------------------------

    async def _handle_client(self, stream: SocketStream) -> None:
        async with stream:
            source = BufferedByteReceiveStream(stream)
            with peer_of(stream) as peer:
                sender = str(peer)
            with of_one_connection(sender):
                try:
                    hello = await read_hello(source)
                    if hello is None:
                        return
                    self._check(hello, sender)
                    state = await self._join(hello)
                except BenchError as error:
                    await send_json(stream, {"error": str(error), "exit_code": error.exit_code})
                    return
                try:
                    await send_json(stream, {"ok": True})
                    await self._serve_client(state, source, stream)
                finally:
                    await self._clients.leave(state)

    def _check(self, hello: Hello, sender: str) -> None:
        """Refuse a client without the secret.

        Raises:
            BenchError: the secret is wrong.
        """
        if not same_secret(hello.secret, self._secret):
            logger.warning("refused a client without the secret: %s", sanitize_line(sender))
            self._clients.flag("wrong_token", f"{sender} tried to join without the secret")
            raise BenchError("wrong secret: this socket is for `mcp-bench connect`")

    async def _join(self, hello: Hello) -> ClientState:
        if len(self._connections) >= MAX_CONNECTIONS:
            raise BenchError(f"{MAX_CONNECTIONS} connections are open already: close some")
        self._numbers += 1
        name = f"{hello.entry[:4]}..." if hello.entry else f"#{self._numbers}"
        choice = TaskChoice(hello.split, hello.tasks, hello.seed, hello.limit)
        return await self._clients.join(hello.benchmark, hello.entry, choice, name)

    async def _serve_client(
        self, state: ClientState, source: BufferedByteReceiveStream, stream: SocketStream
    ) -> None:
        connection = RecordedConnection(state.client, source, stream)
        self._connections[connection] = state
        self._change.announce()
        try:
            await connection.run()
        finally:
            del self._connections[connection]
            self._change.announce()

    # Control -------------------------------------------------------------------------------------

    async def _handle_control(self, stream: SocketStream) -> None:
        async with stream:
            with peer_of(stream) as peer:
                sender = str(peer)
            with of_one_connection(sender):
                await send_json(stream, await self._control(BufferedByteReceiveStream(stream), sender))

    async def _control(self, source: BufferedByteReceiveStream, sender: str) -> dict[str, Any]:
        line = await receive_line(source)
        try:
            request = json.loads(line or b"null")
            secret, command = str(request.get("secret", "")), str(request["command"])
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            return {"error": "not a command"}
        if not same_secret(secret, self._secret):
            logger.warning("refused a control command without the secret from %s", sanitize_line(sender))
            self._clients.flag("forged_control", f"{sender} sent {command[:40]!r} without the secret")
            return {"error": "wrong secret"}
        if command == "down":
            self._stopping.cancel()
        elif command == "stay":
            self._quit_after = None
            self._change.announce()
        elif command != "status":
            return {"error": f"unknown command {command!r}"}
        return self._status()

    def _status(self) -> dict[str, Any]:
        states = list(self._clients.states.values())
        return {
            "pid": os.getpid(),
            "version": version("mcp-bench-kit"),
            "since_us": self._since_us,
            "quit_after": self._quit_after,
            "http": self._url and f"{self._url}/BENCHMARK/mcp",
            "done": self._clients.done + sum(state.client.done for state in states),
            "entries": [self._describe(state) for state in states],
        }

    def _describe(self, state: ClientState) -> dict[str, Any]:
        here = [
            connection.info for connection, of in self._connections.items() if of is state and connection.info
        ]
        info = here[0] if here else state.client.info
        task = state.client.task
        return {
            "entry": state.name,
            "benchmark": state.benchmark,
            "client": info and {"name": info[0], "version": info[1]},
            "connections": state.connections,
            "since_us": state.since_us,
            "task": task and task.planned.task,
            "done": state.client.done,
        }


async def run_referee(
    paths: RefereePaths,
    idle: float,
    quit_after: float | None,
    http: HttpOptions | None,
    listening: Callable[[], None],
) -> None:
    """Run a `Referee` until it ends."""
    await Referee(paths, idle=idle, quit_after=quit_after, http=http).run(listening)


async def read_hello(source: BufferedByteReceiveStream) -> Hello | None:
    """Return the first line of a client, or None if the client left without sending one.

    Raises:
        BenchError: the line is invalid, or comes from another version of mcp-bench.
    """
    line = await receive_line(source)
    if line is None:
        return None
    try:
        hello = json.loads(line)
        if isinstance(hello, dict) and hello.get("protocol") != PROTOCOL:
            raise BenchError(
                "the referee that is up belongs to another version of mcp-bench. End it with "
                "`mcp-bench down`, if necessary of that version"
            )
        return Hello.model_validate(hello)
    except (ValueError, RecursionError) as error:  # pydantic's error is a ValueError
        raise BenchError("the first line is invalid: this socket is for `mcp-bench connect`") from error


@contextmanager
def of_one_connection(sender: str) -> Iterator[None]:
    """Log an error that one connection causes, unless its client has left: the others go on."""
    try:
        yield
    except (anyio.BrokenResourceError, anyio.ClosedResourceError):
        pass
    except Exception:
        logger.exception("the connection of %s failed", sanitize_line(sender))


def same_secret(shown: str, secret: str) -> bool:
    """Return whether somebody showed the secret. Any text can be shown, also one that is no UTF-8."""
    return hmac.compare_digest(shown.encode("utf-8", "replace"), secret.encode())


async def receive_line(source: BufferedByteReceiveStream) -> bytes | None:
    with anyio.move_on_after(HELLO_SECONDS):
        with suppress(anyio.DelimiterNotFound, anyio.IncompleteRead, anyio.BrokenResourceError):
            return await source.receive_until(b"\n", HELLO_BYTES + SECRET_BYTES)
    return None


async def send_json(stream: SocketStream, value: dict[str, Any]) -> None:
    await stream.send(json.dumps(value).encode() + b"\n")
