"""Assigns each message of one connection to an episode.

A call of a world's tool belongs to the task that is open when the call arrives, and so does its answer.
Handshakes, listings and calls of control tools belong to no episode.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from mcp_bench.bridge.interactive.open_task import OpenTask
from mcp_bench.bridge.interactive.tools import CONTROL
from mcp_bench.bridge.tap.change import Change
from mcp_bench.recorder.frames.jsonrpc import Frame, same_id


class Routes:
    """Track one connection. `from_client` and `from_server` are routes for `Recording.store`."""

    def __init__(self, connection: int, current: Callable[[], OpenTask | None]) -> None:
        """Track connection number `connection`; `current` returns the open task."""
        self._connection = connection
        self._current = current
        self._requests: dict[str | None, OpenTask | None] = {}
        self._unanswered: dict[str | None, None] = {}  # in order of arrival
        self._broken = 0
        """Invalid lines for which the server still owes an error without an id."""
        self._change = Change()

    def from_client(self, frame: Frame) -> str | None:
        found = [self._client_task(message) for message in frame.items or (frame,)]
        return next((task.episode for task in found if task is not None), None)

    def from_server(self, frame: Frame, among: Collection[str | None] | None = None) -> str | None:
        """Return the episode of a frame of the server.

        Args:
            frame: the frame.
            among: ids of the requests that an error without an id can answer; None: all of the connection.
        """
        found = [self._server_task(message, among) for message in frame.items or (frame,)]
        return next((task.episode for task in found if task is not None), None)

    def close(self) -> set[str]:
        """Settle all open requests: the connection is gone. Return the episodes it was part of."""
        for rpc_id in list(self._unanswered):
            self._settle(rpc_id, self._requests.get(rpc_id))
        return {task.episode for task in self._requests.values() if task is not None}

    async def answered(self) -> None:
        """Return once every request is answered."""
        while self._unanswered:
            await self._change.wait()

    def _client_task(self, message: Frame) -> OpenTask | None:
        if message.cancels is not None:  # an answer may still come, but is not waited for
            rpc_id = same_id(message.cancels, self._requests)
            task = self._requests.get(rpc_id)
            self._settle(rpc_id, task)
            return task
        if message.kind != "request":
            self._broken += message.kind == "invalid"
            return None
        task = self._current() if message.is_call and message.tool not in CONTROL else None
        self._requests[message.rpc_id] = task
        self._unanswered[message.rpc_id] = None
        if task is not None:
            task.request_stored(self._connection, message.rpc_id)
        return task

    def _server_task(self, message: Frame, among: Collection[str | None] | None) -> OpenTask | None:
        if message.kind == "response":
            rpc_id = self._answered_id(message, among)
            task = self._requests.pop(rpc_id, None)
            self._settle(rpc_id, task)
            return task
        # progress of a call: one that was cancelled may never be answered, and belongs to an earlier task
        waiting = (self._requests.get(rpc_id) for rpc_id in reversed(self._unanswered))
        return next((task for task in waiting if task is not None), None)

    def _answered_id(self, response: Frame, among: Collection[str | None] | None) -> str | None:
        """Return the id of the request that a response answers.

        An error without an id answers an invalid line if there was one. Otherwise it answers a request
        that the server could not parse, most likely the last one.
        """
        if response.rpc_id not in (None, "null") or response.rpc_id in self._requests:
            return same_id(response.rpc_id, self._requests)
        if among is None and self._broken:
            self._broken -= 1
            return None
        return next((asked for asked in reversed(self._unanswered) if among is None or asked in among), None)

    def _settle(self, rpc_id: str | None, task: OpenTask | None) -> None:
        self._unanswered.pop(rpc_id, None)
        self._change.announce()
        if task is not None:
            task.request_settled(self._connection, rpc_id)
