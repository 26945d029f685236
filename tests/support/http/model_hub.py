"""A fake Hugging Face Hub on loopback that has one model, `org/model`; `org/gated` is gated."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

COMMIT = "c" * 40


@contextmanager
def model_hub(folder: Path) -> Iterator[str]:
    """Serve the files of a folder, and yield the URL for HF_ENDPOINT."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._answer(body=True)

        def do_HEAD(self) -> None:
            self._answer(body=False)

        def log_message(self, format: str, *args: object) -> None:
            pass

        def _answer(self, *, body: bool) -> None:
            path = self.path.partition("?")[0]
            name = path.rpartition("/")[2]
            headers = {"X-Repo-Commit": COMMIT}
            if path.startswith("/api/models/org/model"):
                there = [{"rfilename": one.name, "size": one.stat().st_size} for one in folder.iterdir()]
                card = {"license": "apache-2.0"}
                info = {"id": "org/model", "sha": COMMIT, "siblings": there, "cardData": card}
                status, content = 200, json.dumps(info).encode()
            elif path.startswith("/api/models/org/gated"):
                status, content = 403, b"{}"
                headers["X-Error-Code"] = "GatedRepo"
            elif path.startswith(f"/org/model/resolve/{COMMIT}/") and (folder / name).is_file():
                status, content = 200, (folder / name).read_bytes()
                headers["ETag"] = f'"{hashlib.sha256(content).hexdigest()}"'
            else:
                status, content = 404, b"{}"
                headers["X-Error-Code"] = "RepoNotFound"
            self.send_response(status)
            for key, value in {**headers, "Content-Length": str(len(content))}.items():
                self.send_header(key, value)
            self.end_headers()
            if body:
                self.wfile.write(content)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
