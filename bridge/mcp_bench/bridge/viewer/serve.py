"""Serve the viewer until Ctrl-C, and open the browser on it."""

from __future__ import annotations

import html
import os
import secrets
import signal
import socket
import tempfile
import webbrowser
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import anyio
import click

from mcp_bench.bridge.http.access import is_loopback
from mcp_bench.bridge.http.listen import bind, listen, url_host
from mcp_bench.bridge.http.token import FILE, SHORTEST, listener_token
from mcp_bench.bridge.viewer.access import OPEN, ViewerAccess
from mcp_bench.bridge.viewer.app import viewer
from mcp_bench.servers.errors import BenchError, WrongUseError
from mcp_bench.servers.home import home

_SHORTEST = 16
_SECONDS = 1
"""For which the page that opens the viewer is shown."""


def serve_viewer(
    host: str,
    port: int,
    token: str | None,
    *,
    browser: bool,
    path: str = "/",
    training: Sequence[Path] = (),
) -> None:
    """Serve the home's recordings until a signal ends the process.

    Args:
        host: the address to listen on.
        port: 0 takes a free one.
        token: that browsers can log in with. Default: the one of this user's listeners, in the home.
        browser: whether to open one.
        path: the page to open.
        training: more folders with loops, training runs and data sets.

    Raises:
        BenchError: the address is in use.
        WrongUseError: the token is too short.
    """
    if token is not None and len(token) < _SHORTEST:
        raise WrongUseError(f"the token has {len(token)} characters: use {_SHORTEST} or more")
    secret, where = (token, "the one you set") if token else _own_token()
    with bind(host, port) as listener:
        bound = listener.getsockname()[1]
        address = f"http://{url_host(host)}:{bound}"
        access = ViewerAccess(viewer(training), host, bound, secret, path)
        url = f"http://{access.host}:{bound}" if access.host else address
        if not is_loopback(host):
            click.echo(
                f"Warning: {host} can be reached from other machines, and the connection is not encrypted. "
                "Whoever has the token sees every recording and every grade. Better: ssh -L "
                f"{bound}:127.0.0.1:{bound} this machine.",
                err=True,
            )
        lines = [f"The viewer is at {url}{path} until Ctrl-C.", f"Token for other browsers: {where}"]
        anyio.run(_serve, access, listener, [f"{url}{OPEN}", f"{address}{OPEN}"], lines, browser)


def _own_token() -> tuple[str, str]:
    """Return the home's token, and where it is; one for this process alone if the home cannot be written."""
    try:
        return listener_token(), str(home() / FILE)
    except BenchError as error:
        return secrets.token_urlsafe(SHORTEST), f"none ({error})"


async def _serve(
    access: ViewerAccess, listener: socket.socket, openers: list[str], lines: list[str], browser: bool
) -> None:
    """Serve until a signal. What a user sees comes when signals are caught and requests are answered."""
    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async with anyio.create_task_group() as tasks:
            await tasks.start(partial(listen, access, listener))
            code = access.one_time_code()
            with _redirect_file([f"{opener}?code={code}" for opener in openers]) as file:
                for line in lines:
                    click.echo(line)
                if not (browser and await anyio.to_thread.run_sync(webbrowser.open, file.as_uri())):
                    click.echo(f"To open it without a token, once: {file}")
                async for _ in signals:
                    tasks.cancel_scope.cancel()
                    return


@contextmanager
def _redirect_file(urls: Sequence[str]) -> Iterator[Path]:
    """Write a page that only this user can read, which leads to the first of `urls`. The context is its path.

    The second is for a browser that does not resolve the viewer's own name. The page waits for a second, so
    that who comes back to it from such a browser's error can choose that link.
    """
    descriptor, path = _new_file()
    text = (
        '<!doctype html><meta charset="utf-8"><title>mcp-bench view</title>'
        f'<meta http-equiv="refresh" content="{_SECONDS}; url={html.escape(urls[0])}">'
        f'<p><a href="{html.escape(urls[0])}">Open the viewer</a>, or, if this browser does not find it, '
        f'<a href="{html.escape(urls[-1])}">by its address</a></p>\n'
    )
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(text)
        yield path
    finally:
        path.unlink(missing_ok=True)


def _new_file() -> tuple[int, Path]:
    """Make a file that only this user can read: in the home, or else in the temporary directory."""
    name = f"view-{secrets.token_hex(8)}.html"
    try:
        home().mkdir(parents=True, exist_ok=True)
        return os.open(home() / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), home() / name
    except OSError:  # recordings can be looked at where nothing can be written
        descriptor, path = tempfile.mkstemp(f"-{name}")
        return descriptor, Path(path)
