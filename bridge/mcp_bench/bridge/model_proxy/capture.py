"""The recording reverse proxy between one episode's agent and its model endpoint.

It listens on 127.0.0.1, under a path that begins with a token of the episode. Requests without the token, or
from a process that the agent did not start, get a 404. All others go to the same endpoint. The proxy ends
with the episode.
"""

from __future__ import annotations

import logging
import os
import secrets
import socket

import anyio
from anyio.abc import TaskGroup, TaskStatus
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send

from mcp_bench.bridge.http.access import AccessRules, below_token
from mcp_bench.bridge.http.listen import bind, listen
from mcp_bench.bridge.http.reverse_proxy import ReverseProxy
from mcp_bench.bridge.http.tcp_peer import TcpPeers
from mcp_bench.bridge.model_endpoint.url import without_secrets
from mcp_bench.bridge.model_proxy.exchange import ModelExchange
from mcp_bench.bridge.model_proxy.upstream import EPISODE
from mcp_bench.recorder.store.recording import Recording
from mcp_bench.servers.errors import BenchError

LOOPBACK = "127.0.0.1"
SETTLE_SECONDS = 60.0
"""Time for storing one answer of any size."""
_log = logging.getLogger(__name__)


class ModelCapture:
    """The model proxy of one episode. Use it as a context manager, because it holds a port."""

    def __init__(
        self, episode: str, upstream: str, recording: Recording, listener: socket.socket | None = None
    ) -> None:
        """Take a port for the proxy to the model endpoint at `upstream`.

        Args:
            episode: its id.
            upstream: what comes before `EPISODE` in its path, and that itself, is unknown to the agent.
            recording: gets the requests.
            listener: a socket that listens on the loopback of the agent's sandbox, whose processes alone
                reach it; None: a port of this machine.

        Raises:
            WrongUseError: `upstream` is not the URL of an endpoint.
            BenchError: no port is free.
        """
        self._episode = episode
        self._recording = recording
        self.root: int | None = None
        """Root of the agent's process tree. Until it is set, every request is refused."""
        named = upstream.replace(EPISODE, episode)
        self._proxy = ReverseProxy(named, peer="model endpoint")
        path = self._proxy.path.rstrip("/")
        hidden, found, shown = path.partition(f"/{episode}")
        self._hidden = hidden + found if EPISODE in upstream else ""
        """The part of the endpoint's path that the agent does not see."""
        path = shown if self._hidden else path
        self._token = secrets.token_urlsafe(24)
        self._listener = bind(LOOPBACK, 0) if listener is None else listener
        self._port: int = self._listener.getsockname()[1]
        self._peers = TcpPeers(self._port) if listener is None else None
        self.upstream = f"{self._proxy.origin}{path}" if self._hidden else without_secrets(upstream)
        self.base_url = f"http://{LOOPBACK}:{self._port}/{self._token}{path}"
        """The URL that the agent uses as its endpoint."""
        self.failed = False
        """Whether the endpoint failed the last request that it was sent."""
        self._used = False
        self._open = 0
        self._closed = anyio.Event()
        self._settling: TaskGroup

    def __enter__(self) -> ModelCapture:
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.close()

    async def serve(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Forward requests until cancelled. On return, all responses are stored."""
        app = AccessRules(self._admit, LOOPBACK, self._port)
        # storing runs in separate tasks: those of requests are cancelled when the server ends
        async with self._proxy, anyio.create_task_group() as self._settling:
            try:
                await listen(app, self._listener, drain=1, task_status=task_status)
            finally:
                with anyio.move_on_after(SETTLE_SECONDS, shield=True):
                    while self._open:
                        self._closed = anyio.Event()
                        await self._closed.wait()
                if not self._used:
                    _log.warning(
                        "episode %s: the agent sent no request to the captured endpoint %s. If it worked "
                        "anyway, its own configuration names another endpoint",
                        self._episode,
                        self.upstream,
                    )

    def named(self, text: str) -> str:
        """Replace this proxy's URL in a text by the endpoint's own, and hide the token."""
        return text.replace(self.base_url, self.upstream.rstrip("/")).replace(self._token, "...")

    async def _admit(self, scope: Scope, receive: Receive, send: Send) -> None:
        inner = below_token(scope, self._token)
        if inner is not None and not await self._comes_from_agent(scope):
            inner = None
        if inner is None:
            await PlainTextResponse("not found", 404)(scope, receive, send)
            return
        exchange = ModelExchange(inner, self._episode, self._recording.writer, receive, send)
        self._used = True
        self._open += 1
        try:
            await self._proxy(below(self._hidden, inner), exchange.receive, exchange.send)
            self.failed = exchange.endpoint_failed  # a cancelled exchange does not get here
        finally:
            self._settling.start_soon(self._settle, exchange)
            self._open -= 1
            self._closed.set()

    async def _comes_from_agent(self, scope: Scope) -> bool:
        """Return whether the agent sends a request. Another one can have read the token in a command line."""
        if self._peers is None or self.root == os.getpid():  # an agent in this process shows it to nobody
            return self.root is not None
        origin = "foreign" if self.root is None else await self._peers.origin(scope, self.root)
        if origin == "foreign":
            _log.warning("episode %s: refused a model request of another process", self._episode)
        return origin == "below"

    async def _settle(self, exchange: ModelExchange) -> None:
        try:
            with anyio.fail_after(SETTLE_SECONDS, shield=True):
                await exchange.settle()
        except (BenchError, TimeoutError) as error:  # the agent continues, and its request is stored
            _log.error("episode %s: a model response could not be stored: %s", self._episode, error)


def below(prefix: str, scope: Scope) -> Scope:
    """Return a request with a prefix before its path."""
    if not prefix:
        return scope
    return {**scope, "path": prefix + scope["path"], "raw_path": prefix.encode() + scope["raw_path"]}
