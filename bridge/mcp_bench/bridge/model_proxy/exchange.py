"""One model request and its response. Both are copied while they pass through the proxy.

The end of a request is forwarded only once the request is stored. A response is not held back: it is stored
when it has ended, even if it is incomplete.
"""

from __future__ import annotations

from starlette.types import Message, Receive, Scope, Send

from mcp_bench.bridge.model_proxy.redaction import (
    REQUEST_HEADERS,
    RESPONSE_HEADERS,
    Headers,
    secrets_of,
    stored_headers,
    stored_path,
    without_secrets,
)
from mcp_bench.recorder.frames.body import GrowingBody
from mcp_bench.recorder.model_api.exchange import Ending
from mcp_bench.recorder.records import new_id, now_us
from mcp_bench.recorder.store import model_calls
from mcp_bench.recorder.store.database import Writer
from mcp_bench.recorder.store.model_calls import ModelRequest, ModelResponse

TOO_MANY, SERVER_FAULTS = 429, 500
"""HTTP statuses by which an endpoint says that it failed: 429, and 500 or more."""


class ModelExchange:
    """Record one exchange. An incomplete request is not stored."""

    def __init__(self, scope: Scope, episode: str, writer: Writer, receive: Receive, send: Send) -> None:
        self._scope = scope
        self._episode = episode
        self._writer = writer
        self._receive = receive
        self._send = send
        self._secrets = secrets_of(scope["headers"], scope["query_string"])
        self._request_body = GrowingBody()
        self._response_body = GrowingBody()
        self._request: ModelRequest | None = None
        self._status: int | None = None
        self._headers: Headers = ()
        self._first_us: int | None = None
        self._ended_us: int | None = None
        self._ending: Ending = "cut"

    async def receive(self) -> Message:
        """Receive from the agent. Store the request as soon as it is complete.

        Raises:
            StorageError: the request cannot be stored.
        """
        message = await self._receive()
        if message["type"] == "http.request" and self._request is None:
            self._request_body.add(message.get("body", b""))
            if not message.get("more_body", False):
                await self._begin()
        elif message["type"] == "http.disconnect" and self._ended_us is None:
            self._ending, self._ended_us = "abandoned", now_us()
        return message

    async def send(self, message: Message) -> None:
        """Send to the agent."""
        if message["type"] == "http.response.start":
            self._status = message["status"]
            self._headers = [(name.lower(), value) for name, value in message.get("headers", ())]
        elif message["type"] == "http.response.body" and self._ended_us is None:
            if body := message.get("body", b""):
                self._first_us = self._first_us or now_us()
                self._response_body.add(body)
            if not message.get("more_body", False):
                self._ending, self._ended_us = "complete", now_us()
        await self._send(message)

    @property
    def endpoint_failed(self) -> bool:
        """Whether the endpoint refused for lack of capacity, failed, or broke off.

        Not 400, 401 and 403: an agent can cause these by what it sends.
        """
        status = self._status
        broke_off = self._ending == "cut" and self._request is not None
        return broke_off or (status is not None and (status >= SERVER_FAULTS or status == TOO_MANY))

    async def settle(self) -> None:
        """Store the response.

        Raises:
            StorageError: the response cannot be stored.
        """
        request = self._request
        if request is None:
            self._request_body.close()
            return
        response = ModelResponse(
            first_us=self._first_us,
            ended_us=self._ended_us or now_us(),
            status=self._status,
            headers=stored_headers(self._headers, RESPONSE_HEADERS, self._secrets),
            body=without_secrets(self._response_body.take(), self._secrets),
            ending=self._ending,
        )
        await model_calls.settle(self._writer, request, response)

    async def _begin(self) -> None:
        scope = self._scope
        request = ModelRequest(
            id=new_id("mc"),
            episode=self._episode,
            started_us=now_us(),
            method=scope["method"],
            path=stored_path(scope["raw_path"], scope["query_string"], self._secrets),
            headers=stored_headers(scope["headers"], REQUEST_HEADERS, self._secrets),
            body=without_secrets(self._request_body.take(), self._secrets),
        )
        await model_calls.begin(self._writer, request)
        self._request = request
