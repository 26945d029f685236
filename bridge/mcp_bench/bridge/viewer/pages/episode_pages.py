"""The page of an episode, and what it loads on request: frames, whole results, images, effects of calls."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response

from mcp_bench.bridge.viewer import words
from mcp_bench.bridge.viewer.conversation import IMAGE_TYPES, KINDS, calls_of, conversation
from mcp_bench.bridge.viewer.copies import COPIES, as_markdown
from mcp_bench.bridge.viewer.links import query_number
from mcp_bench.bridge.viewer.pages.run_pages import page_of
from mcp_bench.bridge.viewer.recordings import Library, opened_episode, run_of
from mcp_bench.bridge.viewer.timeline import timeline
from mcp_bench.recorder.cli.episode_document import episode_document
from mcp_bench.recorder.conversations.images import image_bytes
from mcp_bench.recorder.conversations.load import conversation as spoken
from mcp_bench.recorder.frames.body import CHUNK
from mcp_bench.recorder.runs.reader import RunReader, StoredEpisode
from mcp_bench.recorder.store.reviews import Reviews
from mcp_bench.servers.terminal.sanitize import sanitize

MOST_FRAMES = 300
FRAME_CHARACTERS = 2_000
_DATA = {"Content-Security-Policy": "default-src 'none'; sandbox"}
"""For what agents and servers sent: it never runs as a page."""


class EpisodePages:
    """Handlers of these pages."""

    def __init__(self, library: Library, reviews: Reviews) -> None:
        self._library = library
        self._reviews = reviews

    def episode(self, request: Request) -> HTMLResponse:
        with self.opened(request) as (reader, episode):
            document = episode_document(reader, episode)
            stored = reader.episode(episode)
        cut_off = self._library.run(reader.path).cut_off
        values = episode_values(document, stored, cut_off)
        values |= neighbours(self._library.episodes(reader.path), stored)
        values["raw"] = request.query_params.get("text") == "raw"
        live = stored.ended_us is None and not cut_off
        return page_of("episode", review=self._reviews.of(episode), live=live, **values)

    def whole(self, request: Request) -> Response:
        """All of the episode, as `mcp-bench show --json` prints it."""
        with self.opened(request) as (reader, episode):
            document = episode_document(reader, episode)
        answer = as_text(json.dumps(document, ensure_ascii=False, indent=1), "application/json")
        if "download" in request.query_params:
            answer.headers["Content-Disposition"] = f'attachment; filename="{episode}.json"'
        return answer

    def markdown(self, request: Request) -> Response:
        """The conversation as Markdown."""
        with self.opened(request) as (reader, episode):
            return as_text(as_markdown(episode_document(reader, episode)))

    def message(self, request: Request) -> Response:
        """The text of one message, as it was written."""
        with self.opened(request) as (reader, episode):
            messages, _ = spoken(reader, reader.episode(episode))
        position = request.path_params["position"]
        if position >= len(messages):
            raise HTTPException(404, "There is no such message.")
        return as_text(messages[position].content or "")

    def call(self, request: Request) -> Response:
        """A call's whole arguments or result, or the call in a form to paste."""
        with self.opened(request) as (reader, episode):
            calls, number = reader.calls(episode), request.path_params["number"]
        if not 1 <= number <= len(calls):
            raise HTTPException(404, "There is no such call.")
        call, what = calls[number - 1], request.path_params["what"]
        if what == "result":
            return as_text(call.text)
        if what not in COPIES:
            raise HTTPException(404, "A call has no such form.")
        return as_text(COPIES[what](call.tool, call.arguments))

    def image(self, request: Request) -> Response:
        """An image in the result of a call."""
        with self.opened(request) as (reader, episode):
            calls, number = reader.calls(episode), request.path_params["number"]
        images = calls[number - 1].images if 1 <= number <= len(calls) else []
        index = request.path_params["index"]
        if index >= len(images):
            raise HTTPException(404, "There is no such image.")
        data = image_bytes(images[index])
        known = data is not None and images[index].media_type in IMAGE_TYPES
        return Response(
            images[index].data.encode() if data is None else data,
            media_type=images[index].media_type if known else "application/octet-stream",
            headers=_DATA,
        )

    def frames(self, request: Request) -> HTMLResponse:
        """The frames of the episode, each one cut."""
        after = query_number(request, "after")
        shown: list[dict[str, Any]] = []
        more = None
        with self.opened(request) as (reader, episode):
            stored = reader.episode(episode)
            for number, sender, body in reader.frame_bodies(episode):
                if number <= after or (shown and shown[-1]["number"] == number):
                    continue
                if len(shown) == MOST_FRAMES:
                    more = shown[-1]["number"]
                    break
                text = body[: FRAME_CHARACTERS * 4].decode("utf-8", "backslashreplace").rstrip("\n")
                shown.append(
                    {
                        "number": number,
                        "sender": sender,
                        "text": text[:FRAME_CHARACTERS],
                        "cut": len(text) > FRAME_CHARACTERS,
                    }
                )
        return page_of("frames", frames=shown, more=more, episode=stored)

    def frame(self, request: Request) -> Response:
        """The exact bytes of a frame."""
        with self.opened(request) as (reader, episode):
            pieces = [
                body
                for number, _, body in reader.frame_bodies(episode)
                if number == request.path_params["number"]
            ]
        if not pieces:
            raise HTTPException(404, "There is no such frame.")
        # the pieces of a large one overlap
        whole = pieces[0] if len(pieces) == 1 else b"".join(piece[:CHUNK] for piece in pieces)
        return Response(whole, media_type="text/plain; charset=utf-8", headers=_DATA)

    def effects(self, request: Request) -> HTMLResponse:
        """What each call changed, from a sealed replay; nothing of it is stored."""
        from mcp_bench.bridge.viewer.effects import effects_of

        with self.opened(request) as (reader, episode):
            document = episode_document(reader, episode)
        found = effects_of(reader.path, episode)
        numbers = {call.execution: call.number for call in calls_of(conversation(document))}
        return page_of("effects", effects=found, numbers=numbers, grade=document["grade"])

    @contextmanager
    def opened(self, request: Request) -> Iterator[tuple[RunReader, str]]:
        """Open the run that a request names. The context is its reader and the id of the episode.

        Raises:
            HTTPException: there is no such run or episode.
        """
        episode = request.path_params["episode"]
        with opened_episode(run_of(self._library, request), episode) as reader:
            yield reader, episode


def episode_values(document: dict[str, Any], stored: StoredEpisode, cut_off: bool) -> dict[str, Any]:
    """Return what the page of an episode shows; `cut_off` as for `verdict`."""
    turns = conversation(document)
    grade = document["grade"]
    assertions = grade["assertions"] if grade else []
    kinds = [("objective", "Objectives", "met", "not met"), ("guardrail", "Guardrails", "kept", "broken")]
    known = {kind for kind, *_ in kinds}
    others = {str(one.get("kind", "objective")) for one in assertions} - known
    kinds += [(kind, kind, "holds", "failed") for kind in sorted(others)]
    groups = [
        (title, holds, fails, sorted(found, key=lambda one: bool(one.get("passed"))))
        for kind, title, holds, fails in kinds
        if (found := [one for one in assertions if str(one.get("kind", "objective")) == kind])
    ]
    rewards = {one["execution"]: one["reward"] for one in grade["rewards"]} if grade else {}
    return {
        "document": document,
        "input": next((turn for turn in turns if turn.role == "user" and turn.text), None),
        "hidden_grade": False,
        "raw": False,
        "episode": stored,
        "verdict": words.verdict(stored, cut_off),
        "ended": words.ended(stored),
        "invalid_words": words.INVALID.get(stored.invalid or "", ""),
        "isolation_words": words.ISOLATION.get(stored.isolation, ""),
        "taint_words": words.TAINT[stored.taint],
        "usage": words.usage(stored.usage),
        "turns": turns,
        "time": timeline(turns, stored.seconds),
        "kinds": [
            (kind, name, count)
            for kind, name in KINDS.items()
            if (count := sum(kind in turn.kinds for turn in turns)) > (kind == "user")  # the task is one
        ],
        "calls": calls_of(turns),
        "groups": groups,
        "rewards": rewards,
    }


def neighbours(episodes: list[StoredEpisode], stored: StoredEpisode) -> dict[str, Any]:
    """Return the episodes before and after one in its run, and the other attempts at its task."""
    ids = [episode.id for episode in episodes]
    at = ids.index(stored.id) if stored.id in ids else None
    return {
        "before": episodes[at - 1] if at else None,
        "after": episodes[at + 1] if at is not None and at + 1 < len(ids) else None,
        "others": [one for one in episodes if one.task == stored.task and one.id != stored.id],
    }


def as_text(text: str, kind: str = "text/plain") -> Response:
    """Return a text for the browser's own text view."""
    # as it is: only the browser's own text view shows it
    content = sanitize(text) if kind == "text/plain" else text
    encoded = content.encode("utf-8", "backslashreplace")
    return PlainTextResponse(encoded, media_type=f"{kind}; charset=utf-8", headers=_DATA)
