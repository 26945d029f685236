"""Send concurrent requests to one worker, from threads and from async code."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import socket
import threading
from collections import deque
from concurrent.futures import Future
from contextlib import AsyncExitStack
from typing import Any

import anyio
from anyio.abc import TaskGroup

from mcp_bench.servers.contracts import JSON, ToolSpec
from mcp_bench.servers.errors import WorkerDiedError
from mcp_bench.servers.host import NO_HOST
from mcp_bench.servers.progress import Report
from mcp_bench.servers.remote.failures import from_wire
from mcp_bench.servers.remote.host import Lender
from mcp_bench.servers.remote.process import WorkerProcess

CLOSE_SECONDS = 5.0
AT_ONCE = 16_384
"""Bytes of a message that a Unix socket of Linux takes as a whole, or not at all."""
UNANSWERED = 0
"""The number of requests whose answers nobody reads: the worker sends none."""
MOST_TOOLSETS = 64
"""Sets of tools that are known by their number."""
MAX_REPORTS = 16
"""Progress reports of one call that can wait for their receiver; later ones are dropped."""


class Inbox:
    """What the worker sends while one request runs, on its way from the reader's thread to the event loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._notes: deque[dict[str, Any] | None] = deque()
        self._filled = asyncio.Event()

    def __len__(self) -> int:
        return len(self._notes)

    def put(self, note: dict[str, Any] | None) -> None:
        """Add progress or a question, or None at the end; from any thread."""
        self._notes.append(note)
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits
            self._loop.call_soon_threadsafe(self._filled.set)

    async def get(self) -> dict[str, Any] | None:
        while not self._notes:
            self._filled.clear()
            await self._filled.wait()
        return self._notes.popleft()


class WorkerConnection:
    """Owns a worker process. A reader thread passes each answer to the future that waits for it."""

    def __init__(self, name: str, process: WorkerProcess) -> None:
        self.pid = process.pid
        self._name = name
        self._process = process
        self._numbers = itertools.count(1)
        self._pending: dict[int, Future[Any]] = {}
        self._listeners: dict[int, Inbox] = {}
        self._state = threading.Lock()
        self._sending = threading.Lock()
        self._tools: tuple[JSON, tuple[ToolSpec, ...]] = [], ()
        self._toolsets: dict[int, tuple[ToolSpec, ...]] = {}
        self._closing = False
        self._lost: str | None = None
        self._reader = threading.Thread(target=self._read, name=f"worker-{name}", daemon=True)
        self._reader.start()

    @property
    def alive(self) -> bool:
        return self._lost is None and not self._closing

    def request(self, method: str, **params: JSON) -> Any:
        """Send a request, block until its result arrives, and return it.

        Raises:
            BenchError: the error that the worker raised.
            WorkerDiedError: the worker ended before it answered.
        """
        number, future = self._register()
        self._send({"id": number, "method": method, "params": params})
        return future.result()

    async def arequest(
        self, method: str, report: Report | None = None, lender: Lender | None = None, /, **params: JSON
    ) -> Any:
        """Send a request and await its result. Cancellation also cancels the request in the worker.

        Args:
            report: receives the progress of the request until its answer arrives.
            lender: answers the questions of the world meanwhile.

        Raises:
            BenchError: as `request`.
        """
        number, future = self._register()
        inbox = self._listeners[number] = Inbox()
        future.add_done_callback(lambda _: inbox.put(None))
        wanted = report is not None
        self._send_soon({"id": number, "method": method, "params": params, "progress": wanted}, unless=future)
        try:
            # no thread in between: for a cheap world, waking one costs more than the world
            async with AsyncExitStack() as held:
                questions: TaskGroup | None = None
                while (note := await inbox.get()) is not None:
                    if "ask" in note:  # beside the rest: the world may ask two things, or not wait
                        if questions is None:
                            questions = await held.enter_async_context(anyio.create_task_group())
                        questions.start_soon(self._reply, note, lender or Lender(NO_HOST))
                    elif report is not None:
                        await report(*note["progress"])
                if questions is not None:
                    questions.cancel_scope.cancel()
            return future.result()
        except anyio.get_cancelled_exc_class():
            with self._state:
                self._pending.pop(number, None)
            future.cancel()
            self._send_soon({"cancel": number})
            raise
        finally:
            self._listeners.pop(number, None)

    async def _reply(self, note: dict[str, Any], lender: Lender) -> None:
        self._send_soon({"ask": note["ask"], **await lender.answer(note["params"])})

    async def tools_of(self, world: int, opened: dict[str, Any]) -> tuple[ToolSpec, ...]:
        """Return the tools of a world that was opened: most have a set that is known by its number."""
        number: int | None = opened.get("toolset")
        if number in self._toolsets:
            return self._toolsets[number]
        # the answer that has them can be on its way still, to a world that was opened before this one
        tools = opened.get("tools") or await self.arequest("tools_of", world=world)
        specs = self.specs(tools)
        if number is not None:
            if len(self._toolsets) >= MOST_TOOLSETS:
                self._toolsets.clear()
            self._toolsets[number] = specs
        return specs

    def specs(self, tools: list[JSON]) -> tuple[ToolSpec, ...]:
        """Return the tools of a world. Most worlds have those of the world before."""
        if self._tools[0] != tools:
            self._tools = tools, tuple(map(ToolSpec.model_validate, tools))
        return self._tools[1]

    def post(self, method: str, **params: JSON) -> None:
        """Send a request without waiting for it. Any thread can, also while it collects garbage."""
        self._send_soon({"id": UNANSWERED, "method": method, "params": params})

    def drop(self, world: int) -> None:
        """Let the worker close a world, without waiting for it."""
        self.post("close", world=world)

    def close(self) -> None:
        """Ask the worker to end, then kill it after a grace period. Pending requests fail. Idempotent."""
        self._closing = True
        with contextlib.suppress(OSError):
            self._process.socket.shutdown(socket.SHUT_WR)  # the worker sees end of file
        self._process.end(CLOSE_SECONDS)
        if self._reader is not threading.current_thread():
            self._reader.join()

    def _register(self) -> tuple[int, Future[Any]]:
        number, future = next(self._numbers), Future[Any]()
        with self._state:
            if self._lost is not None:
                raise WorkerDiedError(self._lost)
            self._pending[number] = future
        return number, future

    def _send(self, message: dict[str, JSON]) -> None:
        self._send_data(json.dumps(message).encode() + b"\n")

    def _send_soon(self, message: dict[str, JSON], *, unless: Future[Any] | None = None) -> None:
        """Send a message without waiting: at once while the socket has room, else in a thread.

        Args:
            unless: skip the message if this future is cancelled. The worker has then received the
                cancellation already and would start the request after it.
        """
        data = json.dumps(message).encode() + b"\n"
        if len(data) <= AT_ONCE and self._sending.acquire(blocking=False):
            try:
                self._process.socket.send(data, socket.MSG_DONTWAIT)
                return
            except BlockingIOError:
                pass  # the worker is busy, and the socket full
            except OSError:
                return  # a broken pipe: as below
            finally:
                self._sending.release()
        threading.Thread(target=self._send_data, args=(data, unless), daemon=True).start()

    def _send_data(self, data: bytes, unless: Future[Any] | None = None) -> None:
        # a broken pipe is not reported here: the reader sees it and fails the pending requests
        with self._sending, contextlib.suppress(OSError):
            if unless is None or not unless.cancelled():
                self._process.socket.sendall(data)

    def _read(self) -> None:
        with self._process.socket as ours, ours.makefile("rb") as lines:
            with contextlib.suppress(OSError, ValueError):
                for line in lines:
                    self._settle(json.loads(line))
            self._fail_pending()

    def _settle(self, answer: dict[str, Any]) -> None:
        if "progress" in answer or "ask" in answer:
            notes = self._listeners.get(answer["id"])
            # a slow receiver misses some reports; the next one supersedes them
            if notes is not None and ("ask" in answer or len(notes) < MAX_REPORTS):
                notes.put(answer)
            return
        with self._state:
            future = self._pending.pop(answer["id"], None)
        if future is None or not future.set_running_or_notify_cancel():
            return  # its caller was cancelled
        if (error := answer.get("error")) is not None:
            future.set_exception(from_wire(error["kind"], error["text"]))
        else:
            future.set_result(answer["result"])

    def _fail_pending(self) -> None:
        code = self._process.end(grace=1.0)
        text = f"the worker process of benchmark {self._name!r} ended with exit code {code}"
        if words := self._process.last_words():
            text += f"; its last output was:\n{words}"
        if self._closing:
            text = f"the worker process of benchmark {self._name!r} was closed"
        with self._state:
            self._lost = text
            pending, self._pending = list(self._pending.values()), {}
        for future in pending:
            if future.set_running_or_notify_cancel():
                future.set_exception(WorkerDiedError(text))
