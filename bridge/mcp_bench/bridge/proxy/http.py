"""`mcp-bench proxy --http PORT URL`: a recording proxy for an MCP server on streamable HTTP."""

from __future__ import annotations

import contextlib
import os
import signal
from functools import partial

import anyio
import click
from anyio.abc import TaskStatus

from mcp_bench.bridge.http.access import AccessRules
from mcp_bench.bridge.http.listen import bind, listen, url_host
from mcp_bench.bridge.http.recorded import Recorded
from mcp_bench.bridge.http.reverse_proxy import ReverseProxy
from mcp_bench.bridge.http.sessions import SessionExchanges
from mcp_bench.bridge.http.token import VARIABLE, below, listener_token
from mcp_bench.bridge.model_endpoint.url import without_secrets
from mcp_bench.bridge.proxy.recording import TASK, proxy_run
from mcp_bench.bridge.tap.traffic import client_info
from mcp_bench.recorder.conversations.align import align
from mcp_bench.recorder.frames.body import Body
from mcp_bench.recorder.records import EpisodeEnd, EpisodeStart, new_id, now_us
from mcp_bench.recorder.run_settings import Durability
from mcp_bench.recorder.runs.run_folder import RunFolder, remove_run
from mcp_bench.recorder.store.recording import Recording


def run_http_proxy(url: str, host: str, port: int, durability: Durability) -> int:
    """Forward from `host`:`port` to the server at `url` until a signal arrives. Print the URL for clients.

    Raises:
        WrongUseError: `url` is invalid.
        BenchError: it cannot listen on the address, or cannot write the recording.
    """
    ReverseProxy(url)  # checks it
    run = RunFolder.create(proxy_run([without_secrets(url)], durability))
    try:
        anyio.run(serve_until_stopped, url, host, port, run)
    finally:
        empty = not run.recording.attempts()
        run.close()
        if empty:
            remove_run(run.path)
    return 0


async def serve_until_stopped(url: str, host: str, port: int, run: RunFolder) -> None:
    given = os.environ.get(VARIABLE)
    token = given or listener_token()
    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM, signal.SIGHUP) as signals:
        async with anyio.create_task_group() as tasks:
            serve = partial(serve_http_proxy, url, host, port, run.recording, token=token)
            address = await tasks.start(serve)
            click.echo(address if given else below(token, address))
            click.echo(f"recording to {run.path}; press Ctrl-C to stop", err=True)
            async for _ in signals:
                break
            tasks.cancel_scope.cancel()


async def serve_http_proxy(
    url: str,
    host: str,
    port: int,
    recording: Recording,
    *,
    token: str | None = None,
    task_status: TaskStatus[str] = anyio.TASK_STATUS_IGNORED,
) -> None:
    """Record the traffic between clients of `host`:`port` and the MCP server at `url`, until cancelled.

    Each session is an episode. All requests without a session are one more episode. After the cancellation,
    running requests get a few seconds; then all episodes end. The caller closes the run's folder. The task
    status is the URL for clients. Port 0 takes a free port.

    Raises:
        WrongUseError: `url` is invalid, or the address is not loopback and there is no token.
        BenchError: it cannot listen on the address.
    """
    async with ReverseProxy(url) as proxy:
        with contextlib.closing(bind(host, port)) as listener:
            port = listener.getsockname()[1]
            episodes = ProxyEpisodes(recording)
            exchanges = SessionExchanges(recording, episodes)
            app = AccessRules(Recorded(proxy, exchanges, path=proxy.path), host, port, token=token)
            try:
                async with anyio.create_task_group() as tasks:
                    await tasks.start(listen, app, listener)
                    task_status.started(f"http://{url_host(host)}:{port}{proxy.path}")
            finally:
                exchanges.end_all()
                episodes.end_shared()


class ProxyEpisodes:
    """One episode per session, and one for all requests without a session."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._of_session: dict[str, str] = {}
        self._shared: str | None = None
        self._shared_connections = 0
        self._next = len(recording.attempts())

    def opened(self, session: str, handshake: Body) -> None:
        self._of_session[session] = self._begin(handshake)

    def current(self, session: str) -> str | None:
        return self._of_session.get(session)

    def without_session(self, request: Body) -> str | None:
        self._shared = self._shared or self._begin(request)
        self._shared_connections += 1
        return self._shared

    def closed(self, session: str, *, unknown: bool = False) -> None:
        self._end(self._of_session.pop(session), 1, "unknown_session" if unknown else None)

    def end_shared(self) -> None:
        if self._shared is not None:
            self._end(self._shared, self._shared_connections)
            self._shared = None

    def _begin(self, request: Body) -> str:
        episode = new_id("ep")
        name, version = (client_info(request) if isinstance(request, bytes) else None) or (None, None)
        self._recording.begin_episode(
            EpisodeStart(
                id=episode,
                task=TASK,
                split="none",
                domain="server",
                prompt="",
                repeat=self._next,
                started_us=now_us(),
                agent=name,
                agent_version=version,
            )
        )
        self._next += 1
        return episode

    def _end(self, episode: str, connections: int, invalid: str | None = None) -> None:
        messages = align("", [], self._recording.recorded_calls(episode))
        end = EpisodeEnd(
            termination="agent_exit", invalid=invalid, connections=connections, ended_us=now_us()
        )
        self._recording.end_episode(episode, end, messages)
