"""Messages between the referee, a sandbox's keeper and the process inside: a JSON line, then raw bytes.

The line's `size` is the number of bytes. Standard library only.
"""

import json
import os
import socket
from collections.abc import Callable, Iterator
from typing import Any, Protocol

Message = tuple[dict[str, Any], bytes]
ANSWER_SECONDS = 5.0
"""For the first process of a sandbox to answer."""


class Control(Protocol):
    """A stream in both directions: a socket, or two pipes."""

    def fileno(self) -> int: ...

    def recv(self, size: int, /) -> bytes: ...

    def sendall(self, data: bytes, /) -> None: ...


def packed(head: "dict[str, Any]", body: bytes = b"") -> bytes:
    return json.dumps({**head, "size": len(body)}).encode() + b"\n" + body


class Incoming:
    """Cuts a stream of bytes into messages."""

    def __init__(self) -> None:
        self._rest = bytearray()

    def feed(self, chunk: bytes) -> "Iterator[Message]":
        self._rest += chunk
        while (end := self._rest.find(b"\n")) >= 0:
            head = json.loads(self._rest[:end])
            whole = end + 1 + head["size"]
            if len(self._rest) < whole:
                return
            body = bytes(self._rest[end + 1 : whole])
            del self._rest[:whole]
            yield head, body


def answers(
    link: socket.socket, incoming: Incoming, pass_on: "Callable[[dict[str, Any], bytes], Any]"
) -> bool:
    """Return whether the first process of a sandbox still answers.

    The end of a process that was killed is seen late on a busy machine: whoever killed it can end before. One
    that is stopped counts as alive.

    Args:
        link: to the process inside.
        incoming: what came from there so far.
        pass_on: called with other messages.
    """
    try:
        link.settimeout(ANSWER_SECONDS)
        link.sendall(packed({"op": "lives", "id": None}), socket.MSG_NOSIGNAL)
        while chunk := link.recv(1 << 20):
            for head, body in incoming.feed(chunk):
                if "lives" in head:
                    return True
                pass_on(head, body)
    except TimeoutError:
        return True
    except OSError:
        pass
    return False


def write_all(descriptor: int, data: bytes) -> None:
    """Write everything to a blocking descriptor.

    Raises:
        OSError: the other end is gone.
    """
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
