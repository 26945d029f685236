"""The state of the traffic between an agent and its server, as far as an episode depends on it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field

import anyio

from mcp_bench.bridge.tap.change import Change
from mcp_bench.recorder.frames import jsonrpc
from mcp_bench.recorder.frames.jsonrpc import Frame

HANDSHAKES = {"initialize", "server/discover"}
IN_FLIGHT_SECONDS = 30.0
"""Limit for finishing running calls after the agent has ended."""


@dataclass
class Seen:
    """What the agent has done so far."""

    connections: int = 0
    refused: int = 0
    calls: int = 0
    answered: set[str] = field(default_factory=set)
    """Methods that got a result."""

    @property
    def greeted(self) -> bool:
        """Whether a handshake was answered."""
        return bool(self.answered & HANDSHAKES)

    @property
    def ready(self) -> bool:
        """Whether the agent has received the tools: a handshake and a `tools/list` were answered."""
        return self.greeted and "tools/list" in self.answered


class Traffic:
    """Track the frames of all connections of one episode."""

    def __init__(self, on_ready: Callable[[], None] = lambda: None) -> None:
        """`on_ready` is called once, when the agent has received the tools."""
        self.seen = Seen()
        self._on_ready = on_ready
        self._open: dict[tuple[int, str | None], str | None] = {}
        self._broken: dict[int, int] = {}
        """Number of invalid lines, by connection, for which the server still owes an error without an id."""
        self._change = Change()

    def from_client(self, number: int, frames: Iterable[Frame]) -> None:
        """Note frames of connection `number`, before they are forwarded."""
        for message in messages_in(frames):
            if message.cancels is not None:  # it will not be answered
                self._open.pop((number, self._asked(number, message.cancels)), None)
                self._change.announce()
            if message.kind == "request":
                self._open[number, message.rpc_id] = message.method
                self.seen.calls += message.is_call
            elif message.kind == "invalid":
                self._broken[number] = self._broken.get(number, 0) + 1

    def from_server(
        self, number: int, frames: Iterable[Frame], among: Collection[str | None] | None = None
    ) -> None:
        """Note frames of a server.

        Args:
            number: of the connection.
            frames: what it sent.
            among: ids of the requests that an error without an id can answer; None: all of the connection.
        """
        for message in messages_in(frames):
            if message.kind == "response":
                self._answered(number, message, among)
                self._change.announce()

    def closed(self, number: int) -> None:
        """Note that a connection has ended."""
        for key in [key for key in self._open if key[0] == number]:
            del self._open[key]
        self._broken.pop(number, None)
        self._change.announce()

    async def settled(self, awaited: Callable[[int, str | None], bool]) -> None:
        """Wait, for a bounded time, until `awaited(connection, method)` is false for all open requests."""
        with anyio.move_on_after(IN_FLIGHT_SECONDS):
            while any(awaited(number, method) for (number, _), method in self._open.items()):
                await self._change.wait()

    def look_again(self) -> None:
        """Let `settled` ask again what is awaited: that has changed."""
        self._change.announce()

    async def calls_settled(self) -> None:
        """Wait, for a bounded time, until no call is running."""
        await self.settled(lambda _, method: method == "tools/call")

    def _answered(self, number: int, response: Frame, among: Collection[str | None] | None) -> None:
        if response.rpc_id in (None, "null") and (number, response.rpc_id) not in self._open:
            self._refused(number, among)
            return
        method = self._open.pop((number, self._asked(number, response.rpc_id)), None)
        if response.outcome != "rpc_error" and method not in self.seen.answered:
            self.seen.answered.add(method or "")
            if self.seen.ready:
                self._on_ready()

    def _asked(self, number: int, rpc_id: str | None) -> str | None:
        """Return the id of the open request that an id means."""
        return jsonrpc.same_id(rpc_id, [asked for on, asked in self._open if on == number])

    def _refused(self, number: int, among: Collection[str | None] | None) -> None:
        """Settle what an error without an id answers.

        That is an invalid line if there was one. Otherwise it is a request that the server could not parse,
        most likely the last one.
        """
        if among is None and self._broken.get(number):
            self._broken[number] -= 1
        elif mine := [key for key in self._open if key[0] == number and (among is None or key[1] in among)]:
            del self._open[mine[-1]]


def messages_in(frames: Iterable[Frame]) -> Iterable[Frame]:
    """Yield messages, with those of batches one by one."""
    for frame in frames:
        yield from frame.items or (frame,)


def asked_in(frames: Iterable[Frame]) -> set[str | None]:
    """Return the ids of the requests in frames of a client."""
    return {message.rpc_id for message in messages_in(frames) if message.kind == "request"}


META_KEY = "io.modelcontextprotocol/clientInfo"


def client_info(body: bytes) -> tuple[str, str] | None:
    """Return the client's name and version, if this message contains them.

    They are in `clientInfo` of a handshake, or in `_meta` of a request of 2026-07-28.
    """
    try:
        message = jsonrpc.loads(body)
    except ValueError:
        return None
    params = message.get("params") if isinstance(message, dict) else None
    if not isinstance(params, dict):
        return None
    meta = params.get("_meta")
    info = params.get("clientInfo") or (meta.get(META_KEY) if isinstance(meta, dict) else None)
    if not isinstance(info, dict) or not isinstance(info.get("name"), str):
        return None
    return jsonrpc.clean(info["name"]), jsonrpc.clean(str(info.get("version", "")))
