"""Requests to one worker, many at a time, from threads and from async code alike."""

from __future__ import annotations

import contextlib
import itertools
import json
import socket
import threading
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any

import anyio
import anyio.from_thread

from mcp_bench.servers.contracts import JSON
from mcp_bench.servers.errors import WorkerDiedError
from mcp_bench.servers.progress import Report
from mcp_bench.servers.remote.failures import from_wire
from mcp_bench.servers.remote.process import WorkerProcess

CLOSE_SECONDS = 5.0
MAX_TOLD = 16
"""Reports of one call that may wait for who listens."""

Told = SimpleQueue[tuple[float, float | None, str | None] | None]
"""What the worker told of one call; None at the end."""


class WorkerConnection:
    """Owns a worker process. A reader thread hands each answer to the future that waits for it."""

    def __init__(self, name: str, process: WorkerProcess) -> None:
        self.pid = process.pid
        self._name = name
        self._process = process
        self._numbers = itertools.count(1)
        self._pending: dict[int, Future[Any]] = {}
        self._listeners: dict[int, Told] = {}
        self._state = threading.Lock()
        self._sending = threading.Lock()
        self._closing = False
        self._lost: str | None = None
        self._reader = threading.Thread(target=self._read, name=f"worker-{name}", daemon=True)
        self._reader.start()

    @property
    def alive(self) -> bool:
        return self._lost is None and not self._closing

    def request(self, method: str, **params: JSON) -> Any:
        """Send a request and wait for its result; blocks.

        Raises:
            BenchError: what the worker raised, or WorkerDiedError.
        """
        number, future = self._register()
        self._send({"id": number, "method": method, "params": params})
        return future.result()

    async def arequest(self, method: str, report: Report | None = None, /, **params: JSON) -> Any:
        """Do the same from async code. When cancelled, the worker is told to stop it.

        Until the answer is there, `report` gets the progress that the worker tells.
        """
        number, future = self._register()
        request: dict[str, JSON] = {"id": number, "method": method, "params": params}
        told: Told = SimpleQueue()
        if report is not None:
            request["progress"] = True
            self._listeners[number] = told
            future.add_done_callback(lambda _: told.put(None))

        def exchange() -> Any:
            # in a thread throughout: sending blocks, too, where the worker is busy
            self._send(request, unless=future)
            if report is not None:
                for progress in iter(told.get, None):
                    anyio.from_thread.run(report, *progress)
            return future.result()

        try:
            return await anyio.to_thread.run_sync(
                exchange, abandon_on_cancel=True, limiter=anyio.CapacityLimiter(1)
            )
        except anyio.get_cancelled_exc_class():
            with self._state:
                self._pending.pop(number, None)
            future.cancel()  # lets the thread go
            self.post({"cancel": number})
            raise
        finally:
            self._listeners.pop(number, None)

    def post(self, message: dict[str, JSON]) -> None:
        """Send something that has no answer, without waiting for the worker to read it."""
        threading.Thread(target=self._send, args=(message,), daemon=True).start()

    def close(self) -> None:
        """End the worker: politely, then for sure. Pending requests fail. Safe to call twice."""
        self._closing = True
        with contextlib.suppress(OSError):
            self._process.socket.shutdown(socket.SHUT_WR)  # the worker reads an end of file
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

    def _send(self, message: dict[str, JSON], *, unless: Future[Any] | None = None) -> None:
        """Send it, but not once that future is cancelled: the worker was told to stop it then, and would
        begin it after that."""
        data = json.dumps(message).encode() + b"\n"
        # a broken pipe is not reported here: the reader sees the end, and fails what is pending
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
        if (progress := answer.get("progress")) is not None:
            told = self._listeners.get(answer["id"])
            # who listens slowly misses some: the next one says more
            if told is not None and told.qsize() < MAX_TOLD:
                told.put(tuple(progress))
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
