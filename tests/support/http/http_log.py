"""A log that a server keeps of its own messages, to compare with a recording."""

from __future__ import annotations

import base64
import json
from pathlib import Path

from starlette.types import ASGIApp, Message, Receive, Scope, Send


class Logged:
    """ASGI middleware that appends each exchange to a file, as one line of JSON."""

    def __init__(self, app: ASGIApp, path: Path) -> None:
        self._app = app
        self._path = path

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request, response = bytearray(), bytearray()
        kind, complete = "", False

        async def receive_logged() -> Message:
            message = await receive()
            request.extend(message.get("body", b""))
            return message

        async def send_logged(message: Message) -> None:
            nonlocal kind, complete
            if message["type"] == "http.response.start":
                kind = dict(message["headers"]).get(b"content-type", b"").decode()
            response.extend(message.get("body", b""))
            await send(message)
            complete = message["type"] == "http.response.body" and not message.get("more_body", False)

        try:
            await self._app(scope, receive_logged, send_logged)
        finally:
            if scope["type"] == "http":
                bodies = [base64.b64encode(body).decode() for body in (request, response)]
                with self._path.open("a") as log:
                    log.write(json.dumps([*bodies, kind, complete]) + "\n")


def logged_messages(path: Path) -> tuple[list[bytes], list[bytes], list[bytes]]:
    """Return the messages of clients, those of the server, and those in incomplete responses of the server."""
    client: list[bytes] = []
    server: list[bytes] = []
    broken: list[bytes] = []
    for line in path.read_text().splitlines():
        sent, answered, kind, complete = json.loads(line)
        request, response = base64.b64decode(sent), base64.b64decode(answered)
        if request:
            client.append(request)
        if kind.startswith("text/event-stream"):
            found = [
                event.partition(b"data: ")[2].rstrip(b"\r\n")
                for event in response.replace(b"\r\n", b"\n").split(b"\n\n")
                if b"data: {" in event
            ]
        else:
            found = [response] if response and kind.startswith("application/json") else []
        (server if complete else broken).extend(found)
    return client, server, broken
