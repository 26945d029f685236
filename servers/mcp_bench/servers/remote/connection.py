"""Send concurrent requests to one worker, from threads and from async code."""

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
MAX_REPORTS = 16
"""Progress reports of one call that can wait for their receiver; later ones are dropped."""

Reports = SimpleQueue[tuple[float, float | None, str | None] | None]
"""The progress of one call, from the worker; None at the end."""


class WorkerConnection:
    """Owns a worker process. A reader thread passes each answer to the future that waits for it."""

    def __init__(self, name: str, process: WorkerProcess) -> None:
        self.pid = process.pid
        self._name = name
        self._process = process
        self._numbers = itertools.count(1)
        self._pending: dict[int, Future[Any]] = {}
        self._listeners: dict[int, Reports] = {}
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
        """Send a request, block until its result arrives, and return it.

        Raises:
            BenchError: the error that the worker raised.
            WorkerDiedError: the worker ended before it answered.
        """
        number, future = self._register()
        self._send({"id": number, "method": method, "params": params})
        return future.result()

    async def arequest(self, method: str, report: Report | None = None, /, **params: JSON) -> Any:
        """Send a request and await its result. Cancellation also cancels the request in the worker.

        Args:
            report: receives the progress of the request until its answer arrives.

        Raises:
            BenchError: as `request`.
        """
        number, future = self._register()
        request: dict[str, JSON] = {"id": number, "method": method, "params": params}
        reports: Reports = SimpleQueue()
        if report is not None:
            request["progress"] = True
            self._listeners[number] = reports
            future.add_done_callback(lambda _: reports.put(None))

        def exchange() -> Any:
            # all in a thread: sending can block as well, while the worker is busy
            self._send(request, unless=future)
            if report is not None:
                for progress in iter(reports.get, None):
                    anyio.from_thread.run(report, *progress)
            return future.result()

        try:
            return await anyio.to_thread.run_sync(
                exchange, abandon_on_cancel=True, limiter=anyio.CapacityLimiter(1)
            )
        except anyio.get_cancelled_exc_class():
            with self._state:
                self._pending.pop(number, None)
            future.cancel()  # ends the thread
            self.post({"cancel": number})
            raise
        finally:
            self._listeners.pop(number, None)

    def post(self, message: dict[str, JSON]) -> None:
        """Send a message that has no answer, without waiting for the worker to read it."""
        threading.Thread(target=self._send, args=(message,), daemon=True).start()

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

    def _send(self, message: dict[str, JSON], *, unless: Future[Any] | None = None) -> None:
        """Send a message.

        Args:
            unless: skip the message if this future is cancelled. The worker has then received the
                cancellation already and would start the request after it.
        """
        data = json.dumps(message).encode() + b"\n"
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
        if (progress := answer.get("progress")) is not None:
            reports = self._listeners.get(answer["id"])
            # a slow receiver misses some reports; the next one supersedes them
            if reports is not None and reports.qsize() < MAX_REPORTS:
                reports.put(tuple(progress))
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
