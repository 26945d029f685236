"""Fake ChatGPT logins, and an OAuth token endpoint on 127.0.0.1 that renews them."""

from __future__ import annotations

import base64
import json
import threading
import time
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, Self

ACCOUNT = {"chatgpt_account_id": "made-up", "chatgpt_plan_type": "plus", "chatgpt_user_id": "made-up"}


def web_token(mark: str, *, seconds: int) -> str:
    """Return an unsigned JSON web token that is valid for `seconds`."""

    def part(claims: dict[str, Any]) -> str:
        return base64.urlsafe_b64encode(json.dumps(claims).encode()).rstrip(b"=").decode()

    claims = {"exp": int(time.time()) + seconds, "mark": mark, "https://api.openai.com/auth": ACCOUNT}
    return f"{part({'alg': 'none', 'typ': 'JWT'})}.{part(claims)}.c2ln"


def write_login(path: Path, *, seconds: int) -> str:
    """Write a file like that of `codex login`. Return its access token."""
    access = web_token("first", seconds=seconds)
    tokens = {"id_token": web_token("id", seconds=seconds), "access_token": access, "account_id": "made-up"}
    document = {
        "auth_mode": "chatgpt",
        "OPENAI_API_KEY": None,
        "tokens": {**tokens, "refresh_token": "refresh-first"},
        "last_refresh": datetime.now(UTC).isoformat(),
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document))
    path.chmod(0o600)
    return access


class TokenEndpoint:
    """A token endpoint, as a context manager. `given` lists the received refresh tokens; it issues `access`."""

    def __init__(self) -> None:
        self.given: list[str] = []
        self.access = web_token("renewed", seconds=3600)
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                endpoint.given.append(body["refresh_token"])
                answer = {"id_token": endpoint.access, "access_token": endpoint.access}
                text = json.dumps({**answer, "refresh_token": "refresh-second"}).encode()
                self.send_response(200)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/oauth/token"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
