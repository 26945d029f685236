"""A simulated machine: programs on PATH, a listening endpoint, third-party plugins."""

from __future__ import annotations

import socket
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self


def program(folder: Path, name: str, script: str) -> Path:
    """Put a shell script into a folder on PATH."""
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def third_party(bench: Any, folder: Path, source: str, agents: Mapping[str, str]) -> None:
    """Install a package with agents, by name and class."""
    place = folder / "third-party"
    info = place / "third_party-1.0.dist-info"
    info.mkdir(parents=True)
    (place / "third_party_agents.py").write_text(source)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: third-party\nVersion: 1.0\n")
    points = "".join(f"{name} = third_party_agents:{kind}\n" for name, kind in agents.items())
    (info / "entry_points.txt").write_text(f"[mcp_bench.agents]\n{points}")
    bench.environ["PYTHONPATH"] = str(place)


class Listener:
    """Answers every request with one status and no body, and stores the requests."""

    def __init__(self) -> None:
        self.status = 200
        self.headers = ""
        self.requests: list[str] = []
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._socket.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._thread = threading.Thread(target=self._serve, name="listener")

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._socket.accept()
            except OSError:
                return
            with client, suppress(OSError):
                head = b""
                while b"\r\n\r\n" not in head and (chunk := client.recv(4096)):
                    head += chunk
                    if not chunk.isascii():  # a TLS client
                        break
                else:
                    self.requests.append(head.decode())
                    answer = f"HTTP/1.1 {self.status} X\r\n{self.headers}Content-Length: 0\r\n\r\n"
                    client.sendall(answer.encode())

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join()
