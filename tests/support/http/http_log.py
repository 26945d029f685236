"""A log that a server keeps of its own messages, to compare with a recording."""

from __future__ import annotations

import base64
import json
from itertools import count
from pathlib import Path

from starlette.types import ASGIApp, Message, Receive, Scope, Send


class Logged:
    """ASGI middleware that appends each exchange to a file: a line of JSON whenever more of it is known.

    A stream that goes on when the log is read is in it, too.
    """

    def __init__(self, app: ASGIApp, path: Path) -> None:
        self._app = app
        self._path = path
        self._numbers = count()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request, response = bytearray(), bytearray()
        kind, complete = "", False
        number = next(self._numbers)

        def log() -> None:
            bodies = [base64.b64encode(body).decode() for body in (request, response)]
            with self._path.open("a") as file:
                file.write(json.dumps([number, *bodies, kind, complete]) + "\n")

        async def receive_logged() -> Message:
            message = await receive()
            if body := message.get("body", b""):
                request.extend(body)
                log()
            return message

        async def send_logged(message: Message) -> None:
            nonlocal kind, complete
            if message["type"] == "http.response.start":
                kind = dict(message["headers"]).get(b"content-type", b"").decode()
            if body := message.get("body", b""):
                response.extend(body)
                log()  # before a client can have it
            await send(message)
            complete = message["type"] == "http.response.body" and not message.get("more_body", False)

        try:
            await self._app(scope, receive_logged, send_logged)
        finally:
            if scope["type"] == "http":
                log()


def logged_messages(path: Path) -> tuple[list[bytes], list[bytes], list[bytes]]:
    """Return the messages of clients, those of the server, and those in incomplete responses of the server."""
    client: list[bytes] = []
    server: list[bytes] = []
    broken: list[bytes] = []
    lines = map(json.loads, path.read_text().splitlines())
    exchanges = {number: rest for number, *rest in lines}  # the last line has all of it
    for sent, answered, kind, complete in exchanges.values():
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
