"""Serve the weights that are being trained, from this process."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial

from anyio.from_thread import start_blocking_portal

from mcp_bench.bridge.http.listen import bind, listen
from mcp_bench.trainer.engine.app import make_app
from mcp_bench.trainer.engine.load import Loaded
from mcp_bench.trainer.serving.require_key import RequireKey

LOOPBACK = "127.0.0.1"


@dataclass(frozen=True)
class Endpoint:
    """Where the policy answers."""

    base_url: str
    key: str = field(repr=False)
    """What every request must show, as `Authorization: Bearer KEY`."""
    port: int


@contextmanager
def serve_policy(loaded: Loaded, model: str, version: Callable[[], str], port: int = 0) -> Iterator[Endpoint]:
    """Serve a policy on loopback, in threads of this process.

    Args:
        loaded: the policy with its engine.
        model: its name.
        version: returns the version of its weights.
        port: the port; 0 picks one.

    Raises:
        BenchError: the port is in use.
    """
    key = secrets.token_urlsafe(32)
    app = make_app(loaded, model, version=version)
    app.add_middleware(RequireKey, key=key)
    with bind(LOOPBACK, port) as listener, loaded.engine, start_blocking_portal() as portal:
        taken = listener.getsockname()[1]
        serving, _ = portal.start_task(partial(listen, app, listener, drain=1))
        try:
            yield Endpoint(f"http://{LOOPBACK}:{taken}/v1", key, taken)
        finally:
            serving.cancel()
