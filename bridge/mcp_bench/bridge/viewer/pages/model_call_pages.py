"""What an agent sent to its model and what it got, as the captured model calls of an episode have it."""

from __future__ import annotations

import json
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from mcp_bench.bridge.viewer.pages.episode_pages import EpisodePages, as_text
from mcp_bench.bridge.viewer.pages.run_pages import page_of
from mcp_bench.bridge.viewer.trees import Drawn, draw_text, draw_value
from mcp_bench.recorder.runs.reader import RunReader
from mcp_bench.recorder.store.model_calls import StoredModelCall

MOST_PARSED = 8_000_000
"""Characters of a body that is still taken apart; a longer one is shown as it begins."""


class ModelCallPages:
    """Handlers of these pages: a list, one call, and its exact bodies."""

    def __init__(self, episodes: EpisodePages) -> None:
        self._episodes = episodes

    def all(self, request: Request) -> HTMLResponse:
        """All captured calls of an episode, also those that failed or belong to no turn."""
        with self._episodes.opened(request) as (reader, episode):
            stored, calls = reader.episode(episode), reader.model_calls(episode)
        return page_of("model_calls", episode=stored, calls=calls)

    def one(self, request: Request) -> HTMLResponse:
        """One call: its parameters, messages and tools, and the answer."""
        with self._episodes.opened(request) as (reader, episode):
            stored, call = reader.episode(episode), _found(reader, episode, request)
            sent, received, answer = reader.model_bodies(call.id)
        return page_of("model_call", episode=stored, call=call, parts=_parts(call, sent, received, answer))

    def body(self, request: Request) -> Response:
        """The stored text of a request or a response."""
        with self._episodes.opened(request) as (reader, episode):
            sent, received, _ = reader.model_bodies(_found(reader, episode, request).id)
        bodies = {"request": sent, "response": received or ""}
        if request.path_params["what"] not in bodies:
            raise HTTPException(404, "A model call has no such part.")
        return as_text(_text(bodies[request.path_params["what"]]))


def _found(reader: RunReader, episode: str, request: Request) -> StoredModelCall:
    for call in reader.model_calls(episode):
        if call.id == request.path_params["call"]:
            return call
    raise HTTPException(404, "There is no such model call.")


def _parts(
    call: StoredModelCall, sent: str | bytes, received: str | bytes | None, answer: Any
) -> list[tuple[str, str, Drawn]]:
    """Return `(title, which body has all of it, what is shown)`. Tools come last: they are long and alike."""
    asked = _parsed(_text(sent))
    parts = [("Parameters", "request", draw_value(dict(call.parameters)))] if call.parameters else []
    if isinstance(asked, dict):
        tools = asked.pop("tools", None)
        parts.append(("Sent", "request", draw_value(asked)))
    else:
        tools = None
        parts.append(("Sent", "request", draw_text(_text(sent))))
    if answer is not None:
        parts.append(("Received", "response", draw_value(answer)))
    elif received:
        parts.append(("Received", "response", draw_text(_text(received))))
    return [*parts, ("Tools", "request", draw_value(tools))] if tools else parts


def _parsed(text: str) -> Any:
    try:
        return json.loads(text) if len(text) <= MOST_PARSED else None
    except (ValueError, RecursionError):
        return None


def _text(body: str | bytes) -> str:
    return body.decode("utf-8", "backslashreplace") if isinstance(body, bytes) else body
