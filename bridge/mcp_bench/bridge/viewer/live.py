"""Pages that update themselves: each is loaded again when something was stored.

Pages of a run get server-sent events. The list of runs and pages of training ask every few seconds, and get
nothing unless something changed: a browser keeps few connections to a host, and people keep many tabs.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from mcp_bench.bridge.viewer.recordings import Library, run_of, signature

SECONDS = 1.0
"""Between two looks at the run's files. Their contents are read only when they have changed."""
KEEP_ALIVE = 15
_CHANGED = "event: changed\ndata: \n\n"


class Live:
    """Handlers of event streams."""

    def __init__(self, library: Library) -> None:
        self._library = library

    async def events(self, request: Request) -> Response:
        path = await anyio.to_thread.run_sync(run_of, self._library, request)
        return StreamingResponse(_events(path), media_type="text/event-stream")


async def _events(path: Path) -> AsyncIterator[str]:
    before, quiet = signature(path), 0
    yield _CHANGED  # something may have been stored since the page was made
    while True:
        await anyio.sleep(SECONDS)
        now = signature(path)
        quiet += 1
        if now != before:
            before, quiet = now, 0
            yield _CHANGED
        elif quiet >= KEEP_ALIVE:
            quiet = 0
            yield ": still here\n\n"


def fingerprint(state: object) -> str:
    """Return what a page shows that it has of a state: it changes whenever the state does."""
    return hashlib.sha256(repr(state).encode("utf-8", "backslashreplace")).hexdigest()[:16]


def unchanged(request: Request, now: str) -> bool:
    """Return whether a page that asks for news has what is there now. Answer it with status 204."""
    return request.query_params.get("seen") == now
