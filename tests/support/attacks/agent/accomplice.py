"""Client of the accomplice, a process outside every sandbox that stores messages and uses stolen tokens."""

import json
import socket

from report import PLACES


def ask(**what):
    with socket.create_connection(("127.0.0.1", PLACES["accomplice"]), timeout=360) as wire:
        wire.sendall(json.dumps(what).encode() + b"\n")
        with wire.makefile("rb") as lines:
            return json.loads(lines.readline())
