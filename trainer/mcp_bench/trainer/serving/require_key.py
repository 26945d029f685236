"""ASGI middleware for serving engines: every request must show the key, whatever its path.

vLLM's own `--api-key` leaves paths open that generate text, such as `/invocations`. This file uses the
standard library only, because vLLM imports it in its own environment.
"""

import hmac
import json
import os
from collections.abc import Awaitable, Callable
from typing import Any

VARIABLE = "MCP_BENCH_ENGINE_KEY"
"""Holds the key in the engine's environment, which only its own user can read."""

Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]
App = Callable[[dict[str, Any], Receive, Send], Awaitable[None]]


class RequireKey:
    """Pass on requests with `Authorization: Bearer KEY`, and answer others with 401."""

    def __init__(self, app: App, key: "str | None" = None) -> None:
        """Protect `app` by `key`. Default: the environment's.

        Raises:
            KeyError: the environment has no key.
        """
        self._app = app
        self._key = (os.environ[VARIABLE] if key is None else key).encode()

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan" or self._shown(scope):
            await self._app(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
        else:
            error = {"message": "wrong or missing API key", "type": "invalid_request_error"}
            body = json.dumps({"error": {**error, "code": "invalid_api_key"}}).encode()
            headers = [(b"content-type", b"application/json"), (b"www-authenticate", b"Bearer")]
            await send({"type": "http.response.start", "status": 401, "headers": headers})
            await send({"type": "http.response.body", "body": body})

    def _shown(self, scope: dict[str, Any]) -> bool:
        values = [value for name, value in scope["headers"] if name.lower() == b"authorization"]
        scheme, _, key = values[0].partition(b" ") if len(values) == 1 else (b"", b"", b"")
        return hmac.compare_digest(key.strip(), self._key) and scheme.lower() == b"bearer"
