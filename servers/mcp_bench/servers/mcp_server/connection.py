"""One client's connection to a session, line by line, without byte streams or queues in between.

Nearly all lines are tool calls. This module answers the well-formed ones itself (see `hot_call`). All other
lines (handshakes, listings, errors, methods of later versions) go through the SDK's own loop. The client
gets the SDK's bytes in both cases.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Self

import anyio
from mcp.server.lowlevel import NotificationOptions
from mcp.server.subscriptions import InMemorySubscriptionBus, ToolsListChanged
from mcp.shared.dispatcher import coerce_request_id
from mcp.shared.jsonrpc_dispatcher import cancelled_request_id_from_params
from mcp.shared.message import SessionMessage
from mcp_types import (
    CONNECTION_CLOSED,
    INTERNAL_ERROR,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
    RequestId,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from mcp_bench.servers.mcp_server.hot_call import (
    AnswerLines,
    HotCall,
    error_line,
    learned_version,
    progress_line,
    read_call,
)
from mcp_bench.servers.mcp_server.lines import ENDS, LongLine
from mcp_bench.servers.mcp_server.sdk_server import OnExecute, build_server
from mcp_bench.servers.mcp_server.stream import NotAMessageError, encode, parse, too_long
from mcp_bench.servers.mcp_server.tool_result import progress_in_json
from mcp_bench.servers.mcp_server.tool_session import ChangesTools, HasResources, Prompts, ToolSession
from mcp_bench.servers.progress import reporting_to

logger = logging.getLogger(__name__)

MAX_LINE = 64 * 1024 * 1024
"""Most bytes in one line, and in all waiting calls of one connection together."""

MAX_UNSENT = 64
"""Most answers that wait for a client that does not read; then the server stops reading from it."""
IDLE_TASKS = 4
FAREWELL_SECONDS = 1.0

TOOLS_CHANGED = encode(JSONRPCNotification(jsonrpc="2.0", method="notifications/tools/list_changed"))

Send = Callable[[bytes], Awaitable[None]]
"""Delivers one line, including its newline. Several tasks call it, one at a time."""


class Connection:
    """Answers the lines of one client.

    Enter it as a context manager, then pass it lines from the same task or a child task. Several calls can
    run at once; each answer is sent as soon as it is ready.
    """

    def __init__(
        self,
        session: ToolSession,
        *,
        name: str,
        send: Send,
        on_execute: OnExecute | None = None,
        prompts: Prompts | None = None,
        max_line: int = MAX_LINE,
    ) -> None:
        self._session = session
        self._changing = session if isinstance(session, ChangesTools) and session.changes_tools else None
        self._changes = InMemorySubscriptionBus()
        self._server = build_server(
            session,
            name=name,
            on_execute=on_execute,
            prompts=prompts,
            resources=session.served_resources if isinstance(session, HasResources) else (),
            changes=self._changes if self._changing else None,
        )
        self._answers = AnswerLines(self._server)
        self._deliver = send
        self._on_execute = on_execute
        self._max_line = max_line
        self._version: str | None = None
        self._listed = False
        self._stale = False
        """The client does not know yet that the tools have changed."""
        self._calls: dict[RequestId, HotCall] = {}
        self._idle: list[_IdleTask] = []
        self._sending = anyio.Lock(fast_acquire=True)
        self._unsent = 0
        self._weight = 0
        self._room: anyio.Event | None = None
        self._to_sdk, self._sdk_end = anyio.create_memory_object_stream[SessionMessage](0)
        self._sdk_ended = anyio.Event()
        self._sdk_sends: set[anyio.CancelScope] = set()
        self._tasks = anyio.create_task_group()
        self._exits = AsyncExitStack()

    async def __aenter__(self) -> Self:
        await self._exits.enter_async_context(self._tasks)
        self._exits.push_async_callback(self._end)
        self._tasks.start_soon(self._run_sdk)
        if self._changing is not None:
            self._changing.tools_listeners.append(self._tools_changed)
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> bool | None:
        """End the running calls. Calls that the client did not cancel get an error as their answer."""
        return await self._exits.__aexit__(exc_type, exc_val, exc_tb)

    async def _end(self) -> None:
        if self._changing is not None:
            self._changing.tools_listeners.remove(self._tools_changed)
        self._to_sdk.close()
        # the SDK answers its running requests when its input ends, but not when it is cancelled
        with anyio.move_on_after(FAREWELL_SECONDS, shield=True):
            await self._sdk_ended.wait()
        for scope in self._sdk_sends:
            scope.cancel()
        self._tasks.cancel_scope.cancel()

    async def receive(self, line: bytes | LongLine) -> None:
        """Take one line, with or without its newline. Return when the next line can be accepted.

        Answers are sent while this and later calls of `receive` run. It waits while the running calls have
        more than `max_line` bytes together, or while too many answers wait for the client.
        """
        if isinstance(line, LongLine):
            await self._refuse(too_long(line, self._max_line))
        elif len(line) > self._max_line:
            await self._refuse(too_long(LongLine(len(line), line[:ENDS], line[-ENDS:]), self._max_line))
        elif (call := read_call(line, self._version)) is not None:
            await self._make_room(call.weight)
            self._begin(call)
        elif line.strip():
            await self._make_room(0)
            await self._pass_on(line)

    # Calls ---------------------------------------------------------------------------------------

    def _begin(self, call: HotCall) -> None:
        self._calls[coerce_request_id(call.id)] = call
        self._weight += call.weight
        if self._idle:
            self._idle.pop().give(call)
        else:
            self._tasks.start_soon(self._work, call)

    async def _work(self, call: HotCall | None) -> None:
        """Run calls one after the other: a task and a scope per call would cost more than the answer."""
        while call is not None:
            with anyio.CancelScope() as scope:
                while call is not None:
                    await self._run(call, scope)
                    if scope.cancel_called:
                        break
                    call = await self._next_call()
            if scope.cancel_called:  # a cancelled scope cannot be used again
                call = await self._next_call()

    async def _next_call(self) -> HotCall | None:
        """Wait for the next call; return None if enough tasks are waiting already."""
        if len(self._idle) >= IDLE_TASKS:
            return None
        idle = _IdleTask()
        self._idle.append(idle)
        await idle.woken.wait()
        return idle.call

    async def _run(self, call: HotCall, scope: anyio.CancelScope) -> None:
        call.scope = scope
        try:
            if not call.cancelled:
                line = await self._answer(call)
                call.scope = None
                self._forget(call)
                if not call.cancelled:
                    if self._stale:
                        await self._notify()  # before the answer: the agent then acts on the new tools
                    await self._send(line)
        except anyio.get_cancelled_exc_class():
            if call.scope is not None and not call.cancelled:  # the server closes while the client waits
                with anyio.move_on_after(FAREWELL_SECONDS, shield=True):
                    await self._send(error_line(call, CONNECTION_CLOSED, "Connection closed"))
            raise
        finally:
            call.scope = None
            self._forget(call)
            self._weight -= call.weight
            self._made_room()

    def _forget(self, call: HotCall) -> None:
        key = coerce_request_id(call.id)
        if self._calls.get(key) is call:  # not a newer call with the same id
            del self._calls[key]

    async def _answer(self, call: HotCall) -> bytes:
        def begins() -> None:
            if self._on_execute is not None:
                self._on_execute(call.id)

        async def report(done: float, total: float | None, message: str | None) -> None:
            if call.scope is not None and call.progress_token is not None:
                await self._send(progress_line(call.progress_token, done, total, message))

        with reporting_to(None if call.progress_token is None else progress_in_json(report)):
            try:
                result = await self._session.call(call.name, call.arguments, begins)
                return self._answers.line(call, result)
            except Exception:
                logger.exception("call of %s", call.name)
                return error_line(call, INTERNAL_ERROR, "Internal server error")

    # Changes of the tools ------------------------------------------------------------------------

    def _tools_changed(self) -> None:
        self._stale = True
        self._tasks.start_soon(self._notify)

    async def _notify(self) -> None:
        """Notify the client if it does not know yet. Since 2026-07-28, only subscribers are notified."""
        if not self._stale:
            return
        self._stale = False
        await self._changes.publish(ToolsListChanged())
        if self._listed and self._version is not None and self._version not in MODERN_PROTOCOL_VERSIONS:
            await self._send(TOOLS_CHANGED)

    # The SDK -------------------------------------------------------------------------------------

    async def _run_sdk(self) -> None:
        notifications = NotificationOptions(tools_changed=self._changing is not None)
        options = self._server.create_initialization_options(notifications)
        try:
            await self._server.run(self._sdk_end, _FromSdk(self._take_from_sdk), options)
        finally:
            self._sdk_ended.set()

    async def _pass_on(self, line: bytes) -> None:
        try:
            message = parse(line)
        except NotAMessageError as error:
            await self._refuse(error)
            return
        if isinstance(message, JSONRPCNotification) and message.method == "notifications/cancelled":
            cancelled = cancelled_request_id_from_params(message.params)
            if cancelled is not None and (call := self._calls.get(coerce_request_id(cancelled))):
                call.cancel()
        elif isinstance(message, JSONRPCRequest) and message.method == "tools/list":
            self._listed = True
        await self._to_sdk.send(SessionMessage(message))

    async def _take_from_sdk(self, item: SessionMessage) -> None:
        if isinstance(item.message, JSONRPCResponse):
            self._version = learned_version(item.message.result) or self._version
        with anyio.CancelScope(shield=True) as scope:  # the SDK may cancel an answer while it is written
            self._sdk_sends.add(scope)
            try:
                await self._send(encode(item.message))
            finally:
                self._sdk_sends.discard(scope)

    async def _refuse(self, error: NotAMessageError) -> None:
        await self._send(encode(error.reply))

    # Back-pressure -------------------------------------------------------------------------------

    async def _send(self, line: bytes) -> None:
        self._unsent += 1
        try:
            async with self._sending:
                await self._deliver(line)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            pass  # the client is gone
        finally:
            self._unsent -= 1
            self._made_room()

    async def _make_room(self, weight: int) -> None:
        while self._unsent >= MAX_UNSENT or (self._weight and self._weight + weight > self._max_line):
            if self._room is None:
                self._room = anyio.Event()
            await self._room.wait()

    def _made_room(self) -> None:
        if self._room is not None:
            self._room.set()
            self._room = None


class _IdleTask:
    """A task that waits for its next call."""

    def __init__(self) -> None:
        self.woken = anyio.Event()
        self.call: HotCall | None = None

    def give(self, call: HotCall) -> None:
        self.call = call
        self.woken.set()


class _FromSdk:
    """The stream that the SDK writes to. The task that writes a message sends it at once."""

    def __init__(self, take: Callable[[SessionMessage], Awaitable[None]]) -> None:
        self._take = take

    async def send(self, item: SessionMessage, /) -> None:
        await self._take(item)

    async def aclose(self) -> None:
        """Do nothing: the caller owns the connection."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> bool | None:
        return None
