"""A fake Hugging Face Hub on loopback, with the part of its API that a commit of small files needs."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class StandIn(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, token: str) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.token = token
        self.made: list[dict[str, Any]] = []
        """Requests to create repositories."""
        self.files: dict[str, bytes] = {}
        """Committed files, by repository and path."""
        self.commits: list[str] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: StandIn
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        if not self._allowed():
            return
        repository, tree, _ = self.path.removeprefix("/api/datasets/").partition("/tree/")
        if tree:
            paths = [path.removeprefix(f"{repository}/") for path in self.server.files]
            self._answer(200, [{"type": "file", "path": path, "oid": "0" * 40, "size": 1} for path in paths])
        else:
            name = repository.partition("/")[0]
            self._answer(200, {"id": name, "sha": "0" * 40, "private": True, "siblings": []})

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if not self._allowed():
            return
        if self.path == "/api/repos/create":
            request = json.loads(body)
            self.server.made.append(request)
            self._answer(200, {"url": f"{self.server.url}/datasets/{_name(request)}", "name": _name(request)})
        elif self.path == "/api/validate-yaml":
            self._answer(200, {"errors": [], "warnings": []})
        elif "/preupload/" in self.path:
            files = [{"path": file["path"], "uploadMode": "regular"} for file in json.loads(body)["files"]]
            self._answer(200, {"files": [{**file, "shouldIgnore": False} for file in files]})
        elif "/commit/" in self.path:
            repository = self.path.removeprefix("/api/datasets/").partition("/commit/")[0]
            for line in body.splitlines():
                item = json.loads(line)
                if item["key"] == "header":
                    self.server.commits.append(item["value"]["summary"])
                elif item["key"] == "file":
                    content = base64.b64decode(item["value"]["content"])
                    self.server.files[f"{repository}/{item['value']['path']}"] = content
                elif item["key"] == "deletedFile":
                    del self.server.files[f"{repository}/{item['value']['path']}"]
            address = f"{self.server.url}/datasets/{repository}/commit/{'1' * 40}"
            self._answer(200, {"commitUrl": address, "commitOid": "1" * 40, "success": True})
        else:
            self._answer(404, {"error": f"the fake hub does not know {self.path}"})

    def _allowed(self) -> bool:
        if self.headers.get("Authorization") == f"Bearer {self.server.token}":
            return True
        self._answer(401, {"error": "Invalid credentials"})
        return False

    def _answer(self, status: int, document: Any) -> None:
        data = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""


def _name(request: dict[str, Any]) -> str:
    organization = request.get("organization")
    return f"{organization}/{request['name']}" if organization else str(request["name"])


@contextmanager
def hub_stand_in(token: str) -> Iterator[StandIn]:
    with StandIn(token) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
