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
    """Pass on requests with `Authorization: Bearer KEY` or `x-api-key: KEY`, and answer others with 401.

    Clients of the Messages API send the latter.
    """

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
            body = json.dumps(_refusal(scope["path"])).encode()
            headers = [(b"content-type", b"application/json"), (b"www-authenticate", b"Bearer")]
            await send({"type": "http.response.start", "status": 401, "headers": headers})
            await send({"type": "http.response.body", "body": body})

    def _shown(self, scope: dict[str, Any]) -> bool:
        keys = []
        for name, value in scope["headers"]:
            scheme, _, key = value.partition(b" ")
            if name.lower() == b"authorization" and scheme.lower() == b"bearer":
                keys.append(key.strip())
            elif name.lower() == b"x-api-key":
                keys.append(value.strip())
        return any(hmac.compare_digest(key, self._key) for key in keys)


def _refusal(path: str) -> dict[str, Any]:
    """Return the answer's body in the form of the API that was asked."""
    message = "wrong or missing API key"
    if "/v1/messages" in path:
        return {"type": "error", "error": {"type": "authentication_error", "message": message}}
    return {"error": {"message": message, "type": "invalid_request_error", "code": "invalid_api_key"}}
