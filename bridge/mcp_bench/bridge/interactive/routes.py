"""Which episode each message of one connection belongs to.

A call of a world's tool belongs to the task that is open when it comes in, and its answer goes where
it went. Handshakes, listings and the control of tasks belong to none.
"""

from __future__ import annotations

from collections.abc import Callable

import anyio

from mcp_bench.bridge.interactive.open_task import OpenTask
from mcp_bench.bridge.interactive.tools import CONTROL
from mcp_bench.recorder.frames.jsonrpc import Frame


class Routes:
    """Follows one connection; its methods suit `Recording.store`."""

    def __init__(self, connection: int, current: Callable[[], OpenTask | None]) -> None:
        """`current` tells which task is open."""
        self._connection = connection
        self._current = current
        self._asked: dict[str | None, OpenTask | None] = {}
        self._unanswered: dict[str | None, None] = {}  # in their order
        self._broken = 0
        """Lines that are no message, for which the server owes an error without an id."""
        self._change = anyio.Event()

    def from_client(self, frame: Frame) -> str | None:
        found = [self._client_task(message) for message in frame.items or (frame,)]
        return next((task.episode for task in found if task is not None), None)

    def from_server(self, frame: Frame) -> str | None:
        found = [self._server_task(message) for message in frame.items or (frame,)]
        return next((task.episode for task in found if task is not None), None)

    def close(self) -> set[str]:
        """The connection is gone: nothing is answered any more. Return the episodes it was part of."""
        for rpc_id in list(self._unanswered):
            self._settle(rpc_id, self._asked.get(rpc_id))
        return {task.episode for task in self._asked.values() if task is not None}

    async def answered(self) -> None:
        """Return when no request waits for its answer."""
        while self._unanswered:
            await self._change.wait()

    def _client_task(self, message: Frame) -> OpenTask | None:
        if message.cancels is not None:  # an answer may come all the same, but nobody waits for it
            task = self._asked.get(message.cancels)
            self._settle(message.cancels, task)
            return task
        if message.kind != "request":
            self._broken += message.kind == "invalid"
            return None
        task = self._current() if message.is_call and message.tool not in CONTROL else None
        self._asked[message.rpc_id] = task
        self._unanswered[message.rpc_id] = None
        if task is not None:
            task.asked(self._connection, message.rpc_id)
        return task

    def _server_task(self, message: Frame) -> OpenTask | None:
        if message.kind == "response":
            rpc_id = self._answered_id(message)
            task = self._asked.pop(rpc_id, None)
            self._settle(rpc_id, task)
            return task
        return next((task for task in self._asked.values() if task is not None), None)  # progress of a call

    def _answered_id(self, response: Frame) -> str | None:
        """Return the id of the request that a response is for.

        An error without an id is for a line that was none, else for a request that the server could
        not read: most likely the last one.
        """
        if response.rpc_id not in (None, "null") or response.rpc_id in self._asked:
            return response.rpc_id
        if self._broken:
            self._broken -= 1
            return None
        return next(reversed(self._unanswered), None)

    def _settle(self, rpc_id: str | None, task: OpenTask | None) -> None:
        self._unanswered.pop(rpc_id, None)
        self._change.set()
        self._change = anyio.Event()
        if task is not None:
            task.settled(self._connection, rpc_id)
