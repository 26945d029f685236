"""The page that searches all conversations."""

from __future__ import annotations

from markupsafe import Markup, escape
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from mcp_bench.bridge.viewer.links import Links
from mcp_bench.bridge.viewer.pages.run_pages import page_of
from mcp_bench.bridge.viewer.recordings import Library
from mcp_bench.bridge.viewer.search_index import MARK, UNMARK, SearchIndex
from mcp_bench.servers.errors import BenchError
from mcp_bench.servers.terminal.sanitize import sanitize_line

MOST_HITS = 200
WAIT_SECONDS = 1.5


class SearchPage:
    """The handler of this page."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self._index = SearchIndex(library)

    def search(self, request: Request) -> Response:
        """Messages that contain all words, or all attempts at a task; an id goes to its page."""
        task = request.query_params.get("task", "")
        words = task or request.query_params.get("q", "").strip()
        run = request.query_params.get("run", "").strip()
        if words.startswith("run_") and any(path.name == words for path in self._library.paths()):
            return RedirectResponse(Links().run(words), 303)
        if words.startswith("ep_") and len(words) > 10 and " " not in words:
            try:
                return RedirectResponse(Links().episode(*self._library.find(words)), 303)
            except BenchError:
                pass
        hits = []
        if words:
            self._index.refresh(WAIT_SECONDS)
            hits = self._index.search(words, MOST_HITS, run, task=task)
        return self._page(words, run, task, [(hit, marked(hit.excerpt)) for hit in hits])

    def _page(self, words: str, run: str, task: str, hits: list[tuple[object, Markup]]) -> HTMLResponse:
        return page_of(
            "search",
            q=words,
            run=run,
            task=task,
            hits=hits,
            most=MOST_HITS,
            complete=self._index.complete,
            left=self._index.left,
            problem=self._index.problem,
            unreadable=self._index.unreadable,
        )


def marked(excerpt: str) -> Markup:
    """Return an excerpt as HTML with what was searched for marked."""
    parts = excerpt.split(MARK)
    done = [escape(sanitize_line(parts[0]))]
    for part in parts[1:]:
        inside, _, after = part.partition(UNMARK)
        done += [Markup("<mark>{}</mark>").format(sanitize_line(inside)), escape(sanitize_line(after))]
    return Markup().join(done)
