"""Keeps events of SSE streams in memory, so that a client can resume a stream with `Last-Event-ID`."""

from mcp.server.streamable_http import EventCallback, EventMessage, EventStore
from mcp_types import JSONRPCMessage


class MemoryEventStore(EventStore):
    """Number the events of all streams. The id of an event is its position in the list, from 1."""

    def __init__(self) -> None:
        self.events: list[tuple[str, JSONRPCMessage | None]] = []

    async def store_event(self, stream_id: str, message: JSONRPCMessage | None) -> str:
        self.events.append((stream_id, message))
        return str(len(self.events))

    async def replay_events_after(self, last_event_id: str, send_callback: EventCallback) -> str | None:
        last = int(last_event_id) if last_event_id.isdigit() else 0
        if not 1 <= last <= len(self.events):
            return None
        stream = self.events[last - 1][0]
        for number, (of_stream, message) in enumerate(self.events[last:], last + 1):
            if of_stream == stream and message is not None:
                await send_callback(EventMessage(message, str(number)))
        return stream
