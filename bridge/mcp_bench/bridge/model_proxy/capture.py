"""One episode's way to its model endpoint: a recording reverse proxy of its own.

It listens on 127.0.0.1, under a path that begins with a token of the episode; whoever does not know that
gets a 404. Every request goes to the one endpoint. When the episode is over, it is gone.
"""

from __future__ import annotations

import logging
import secrets

import anyio
from anyio.abc import TaskGroup, TaskStatus
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send

from mcp_bench.bridge.http.access import AccessRules, below_token
from mcp_bench.bridge.http.listen import bind, listen
from mcp_bench.bridge.http.reverse_proxy import ReverseProxy
from mcp_bench.bridge.model_proxy.exchange import ModelExchange
from mcp_bench.recorder.store.recording import Recording
from mcp_bench.servers.errors import BenchError

LOOPBACK = "127.0.0.1"
SETTLE_SECONDS = 60.0
"""For storing one answer, however large."""
_log = logging.getLogger(__name__)


class ModelCapture:
    """A context manager: it holds a port."""

    def __init__(self, episode: str, upstream: str, recording: Recording) -> None:
        """Take a port, for the model endpoint at `upstream`.

        Raises:
            WrongUseError: `upstream` is no URL of an endpoint.
            BenchError: there is no port left.
        """
        self._episode = episode
        self._recording = recording
        self._proxy = ReverseProxy(upstream, peer="model endpoint")
        self._token = secrets.token_urlsafe(24)
        self._listener = bind(LOOPBACK, 0)
        self._port: int = self._listener.getsockname()[1]
        path = self._proxy.path.rstrip("/")
        self.upstream = upstream
        self.base_url = f"http://{LOOPBACK}:{self._port}/{self._token}{path}"
        """What the agent is to take for its endpoint."""
        self._asked = False
        self._open = 0
        self._closed = anyio.Event()
        self._settling: TaskGroup

    def __enter__(self) -> ModelCapture:
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.close()

    async def serve(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Pass requests on until cancelled; on return, what came of them is stored."""
        app = AccessRules(self._admit, LOOPBACK, self._port)
        # what is stored has tasks of its own: those of requests are torn away when the server has to end
        async with self._proxy, anyio.create_task_group() as self._settling:
            try:
                await listen(app, self._listener, drain=1, task_status=task_status)
            finally:
                with anyio.move_on_after(SETTLE_SECONDS, shield=True):
                    while self._open:
                        self._closed = anyio.Event()
                        await self._closed.wait()
                if not self._asked:
                    _log.warning(
                        "episode %s: the agent asked nothing at the endpoint that is captured, %s: if it "
                        "worked, it has another one in a configuration of its own",
                        self._episode,
                        self.upstream,
                    )

    def named(self, text: str) -> str:
        """Return a text with the endpoint's own URL in it, where it has that of this proxy."""
        return text.replace(self.base_url, self.upstream.rstrip("/")).replace(self._token, "...")

    async def _admit(self, scope: Scope, receive: Receive, send: Send) -> None:
        inner = below_token(scope, self._token)
        if inner is None:
            await PlainTextResponse("not found", 404)(scope, receive, send)
            return
        exchange = ModelExchange(inner, self._episode, self._recording.writer, receive, send)
        self._asked = True
        self._open += 1
        try:
            await self._proxy(inner, exchange.receive, exchange.send)
        finally:
            self._settling.start_soon(self._settle, exchange)
            self._open -= 1
            self._closed.set()

    async def _settle(self, exchange: ModelExchange) -> None:
        try:
            with anyio.fail_after(SETTLE_SECONDS, shield=True):
                await exchange.settle()
        except (BenchError, TimeoutError) as error:  # the agent goes on, and what it asked is stored
            _log.error("episode %s: an answer of the model was not stored: %s", self._episode, error)
