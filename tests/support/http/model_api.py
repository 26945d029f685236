"""A model API that answers as a test says, without any model."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

Answer = tuple[int, Any]
"""Status, and a document."""


def listed(*names: str) -> Answer:
    """Return the list of these models, as OpenAI and Anthropic answer it."""
    return 200, {"data": [{"id": name} for name in names]}


def refused(status: int, words: str) -> Answer:
    return status, {"error": {"message": words, "type": "some_error"}}


class Server(ThreadingHTTPServer):
    daemon_threads = False  # its end waits for them


class ModelApi:
    """Use as a context manager. Requests without an answer get a 404; None closes the connection."""

    def __init__(self, answers: Mapping[str, Answer | None]) -> None:
        """`answers` are by method and path without the query, such as `GET /v1/models`."""
        self.answers = dict(answers)
        self.requests: list[str] = []
        """Method, path and query of each request, in order."""
        self.keys: list[str | None] = []
        """The key in each request."""
        self.bodies: list[Any] = []
        self._server = Server(("127.0.0.1", 0), self._handler())
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        api = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                api.requests.append(f"{self.command} {self.path}")
                bearer = (self.headers["authorization"] or "").removeprefix("Bearer ")
                api.keys.append(bearer or self.headers["x-api-key"] or self.headers["x-goog-api-key"])
                length = int(self.headers["content-length"] or 0)
                api.bodies.append(json.loads(self.rfile.read(length)) if length else None)
                path = self.path.partition("?")[0]
                found = api.answers.get(f"{self.command} {path}", refused(404, "nothing here"))
                if found is None:
                    return
                status, document = found
                body = json.dumps(document).encode()
                self.send_response(status)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            do_POST = do_GET  # noqa: N815 - the name that the base class calls

            def log_message(self, *_: object) -> None:
                pass

        return Handler

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
