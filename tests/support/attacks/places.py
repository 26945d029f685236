"""Surroundings of the hostile agent: sockets and terminals that it must not reach, and an accomplice outside
its sandbox."""

from __future__ import annotations

import ctypes
import json
import os
import pty
import socket
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from mcp_bench.bridge.isolation import confine

SECONDS = 360
KEY_SPEC_USER_KEYRING, KEYCTL_UNLINK = -4, 9


@contextmanager
def greeter() -> Iterator[str]:
    """Serve an abstract socket that greets every client, like a session bus."""
    name = f"mcp-bench-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"\0{name}".encode())
        listener.listen()

        def greet() -> None:
            with suppress(OSError):
                while True:
                    client, _ = listener.accept()
                    with client:
                        client.sendall(b"hello")

        thread = threading.Thread(target=greet)
        thread.start()
        try:
            yield f"@{name}"
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()


@contextmanager
def terminal() -> Iterator[str]:
    """Open a terminal of the user."""
    ours, theirs = pty.openpty()
    try:
        yield os.ttyname(theirs)
    finally:
        os.close(ours)
        os.close(theirs)


@contextmanager
def user_key() -> Iterator[str]:
    """Put a key into the user's keyring (add_key(2)); yield its description."""
    libc, name = ctypes.CDLL(None), f"mcp-attack-{os.getpid()}"
    place = list(confine.ARCHITECTURES).index(os.uname().machine)
    add_key, keyctl = confine.REFUSED["add_key"][place], confine.REFUSED["keyctl"][place]
    key = libc.syscall(add_key, b"user", name.encode(), b"secret", 6, KEY_SPEC_USER_KEYRING)
    try:
        yield name
    finally:
        libc.syscall(keyctl, KEYCTL_UNLINK, key, KEY_SPEC_USER_KEYRING)


class Accomplice(socketserver.ThreadingTCPServer):
    """Stores messages between agents, and uses a stolen token on request."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.kept: dict[str, Any] = {}
        self.changed = threading.Condition()

    def answer(self, asked: dict[str, Any]) -> Any:
        if "show" in asked:
            return answered(*asked["show"])
        with self.changed:
            if "put" in asked:
                self.kept[asked["put"]] = asked["value"]
                self.changed.notify_all()
                return None
            self.changed.wait_for(lambda: asked["get"] in self.kept, SECONDS)
            return self.kept[asked["get"]]


class _Handler(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        server = self.server
        assert isinstance(server, Accomplice)
        self.wfile.write(json.dumps(server.answer(json.loads(self.rfile.readline()))).encode() + b"\n")


def answered(folder: str, token: str) -> bool:
    """Return whether a process that no agent started gets an answer with an episode's token."""
    with socket.socket(socket.AF_UNIX) as wire:
        wire.settimeout(SECONDS)
        try:
            wire.connect(f"{folder}/socket")
            wire.sendall(token.encode() + b'\n{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
            return wire.recv(1000) != b""
        except OSError:
            return False


@contextmanager
def accomplice() -> Iterator[Accomplice]:
    with Accomplice() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
