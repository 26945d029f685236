"""What a person can change from a page: reviews, a run's tags and note, and whether the run goes on.

Recordings themselves are never changed. Stopping and resuming are what Ctrl-C and `record --resume` do.
"""

from __future__ import annotations

from threading import Thread
from urllib.parse import parse_qs

import anyio
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from mcp_bench.bridge.viewer.links import Links
from mcp_bench.bridge.viewer.pages.run_pages import page_of
from mcp_bench.bridge.viewer.recording_command import resume_run, stop_run, wait_for_start
from mcp_bench.bridge.viewer.recordings import Library, opened_episode, run_of
from mcp_bench.recorder.runs.annotations import annotate
from mcp_bench.recorder.store.reviews import Reviews

_BODY = 1 << 16


class Changes:
    """Handlers of POST requests. Access control has checked that our own pages sent them."""

    def __init__(self, library: Library, reviews: Reviews) -> None:
        self._library = library
        self._reviews = reviews

    async def review(self, request: Request) -> Response:
        """Mark an episode good or bad, with a reason."""
        form = await _form(request)
        path, episode = run_of(self._library, request), request.path_params["episode"]

        def store() -> Response:
            with opened_episode(path, episode) as reader:
                stored = reader.episode(episode)
            verdict, reason = form.get("verdict", ""), form.get("reason", "").strip()
            review = self._reviews.put(path.name, episode, verdict, reason)
            if request.headers.get("hx-request") == "true":
                return page_of("review", episode=stored, review=review, saved=True)
            return RedirectResponse(Links().episode(path.name, episode), 303)

        return await anyio.to_thread.run_sync(store)

    async def annotations(self, request: Request) -> Response:
        """Replace a run's tags and its note, as `mcp-bench annotate` does."""
        form, path = await _form(request), run_of(self._library, request)

        def store() -> None:
            before = self._library.run(path).summary
            tags = form.get("tags", "").replace(",", " ").split()
            gone = set(before.tags if before else ()) - set(tags)
            annotate(path, add=tags, remove=gone, note=form.get("note", "").strip())

        await anyio.to_thread.run_sync(store)
        return RedirectResponse(Links().run(path.name), 303)

    async def stop(self, request: Request) -> Response:
        """Interrupt the command that records a run, as Ctrl-C in its terminal does."""
        path = run_of(self._library, request)
        await anyio.to_thread.run_sync(stop_run, path)
        return RedirectResponse(Links().run(path.name), 303)

    async def resume(self, request: Request) -> Response:
        """Start `mcp-bench record --resume`, and show the run when it is being recorded again."""
        path = run_of(self._library, request)
        process = await anyio.to_thread.run_sync(resume_run, path)
        # it outlives the viewer; one that ends before leaves no zombie
        Thread(target=process.wait, name=f"resumed {path.name}", daemon=True).start()
        await anyio.to_thread.run_sync(wait_for_start, path, process)
        return RedirectResponse(Links().run(path.name), 303)


async def _form(request: Request) -> dict[str, str]:
    """Return the fields of a form. A browser sends every line break as CRLF."""
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > _BODY:
            raise HTTPException(413, f"The form is larger than {_BODY} bytes.")
    fields = parse_qs(body.decode("utf-8", "replace"), keep_blank_values=True)
    return {name: values[0].replace("\r\n", "\n") for name, values in fields.items()}
