"""An OTLP/HTTP collector on loopback that keeps the spans it receives."""

from __future__ import annotations

import contextlib
import gzip
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


class Receiver:
    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.url = ""

    def requests(self) -> Iterator[ExportTraceServiceRequest]:
        for body in self.bodies:
            request = ExportTraceServiceRequest()
            request.ParseFromString(body)
            yield request

    @property
    def spans(self) -> list[Any]:
        """All spans, ordered by start time."""
        found = [
            span
            for request in self.requests()
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]
        return sorted(found, key=lambda span: span.start_time_unix_nano)

    @property
    def resource(self) -> dict[str, Any]:
        return attributes(next(iter(self.requests())).resource_spans[0].resource)


def attributes(holder: Any) -> dict[str, Any]:
    return {item.key: getattr(item.value, item.value.WhichOneof("value")) for item in holder.attributes}


@contextlib.contextmanager
def otlp_receiver() -> Iterator[Receiver]:
    receiver = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            zipped = self.headers.get("Content-Encoding") == "gzip"
            if self.path == "/v1/traces":
                receiver.bodies.append(gzip.decompress(body) if zipped else body)
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        receiver.url = f"http://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield receiver
        finally:
            server.shutdown()
            thread.join()
