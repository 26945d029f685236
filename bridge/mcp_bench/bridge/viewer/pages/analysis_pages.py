"""Pages over many episodes: comparisons, tools, failures, reviews."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse

from mcp_bench.bridge.viewer import failures, tool_totals
from mcp_bench.bridge.viewer.pages.run_pages import page_of
from mcp_bench.bridge.viewer.recordings import Library, Run, opened_episode
from mcp_bench.bridge.viewer.side_by_side import aligned, attempt
from mcp_bench.bridge.viewer.words import verdict
from mcp_bench.recorder.errors import StorageError
from mcp_bench.recorder.runs.reader import StoredEpisode
from mcp_bench.recorder.scores.comparison import Side, compare_alike, how_conditions_differ
from mcp_bench.recorder.store.reviews import Reviews
from mcp_bench.servers.errors import BenchError

RUNS_AT_ONCE = 20
"""Runs that a page takes together unless its query names some."""
MOST_COMPARED = 200


class AnalysisPages:
    """Handlers of these pages."""

    def __init__(self, library: Library, reviews: Reviews) -> None:
        self._library = library
        self._reviews = reviews

    def compare(self, request: Request) -> HTMLResponse:
        """Two sides on the same tasks: runs, agents or models."""
        a, b = request.query_params.get("a", "").strip(), request.query_params.get("b", "").strip()
        stored = self._library.paths()
        older = [path for path in stored[MOST_COMPARED:] if path.name in (a, b)]
        paths = stored[:MOST_COMPARED] + older
        runs = [run for run in map(self._library.run, paths) if run.summary is not None]
        values: dict[str, Any] = {"a": a, "b": b, "runs": runs, "rows": None}
        if a and b:
            named = [path for path in paths if path.name in (a, b)]
            both = {path.name for path in named} >= {a, b}
            episodes = list(self._library.all_episodes(named if both else paths))
            values |= _compared(episodes, a, b)
            values["not_read"] = 0 if both else len(stored) - len(paths)
        return page_of("compare", **values)

    def side_by_side(self, request: Request) -> HTMLResponse:
        """Two attempts, aligned by call."""
        sides = [self._attempt(request.query_params.get(name, "")) for name in "ab"]
        return page_of("side_by_side", sides=sides, rows=aligned(*sides))

    def _attempt(self, name: str) -> dict[str, Any]:
        run, _, episode = name.partition("/")
        try:
            path = self._library.path(run)
        except KeyError:
            raise HTTPException(404, "There is no such run: name attempts as RUN/EPISODE.") from None
        with opened_episode(path, episode) as reader:
            return attempt(reader, episode, self._library.run(reader.path).cut_off)

    def tools(self, request: Request) -> HTMLResponse:
        """Calls, errors and latencies of each tool."""
        paths, runs = self._chosen(request)
        return page_of(
            "tools", tools=tool_totals.totals(paths), runs=runs, all_runs=self._all(), chosen=_named(request)
        )

    def failures(self, request: Request) -> HTMLResponse:
        """What went wrong, grouped."""
        paths, runs = self._chosen(request)
        groups = failures.groups(self._library, paths)
        episodes = sum(len(self._episodes(path)) for path in paths)
        return page_of(
            "failures",
            groups=groups,
            runs=runs,
            episodes=episodes,
            all_runs=self._all(),
            chosen=_named(request),
        )

    def reviews(self, _: Request) -> HTMLResponse:
        """What was marked by hand, and how often the grader agrees."""
        found = list(self._reviews.all().values())[::-1]
        rows, agree, graded = [], 0, 0
        for review in found[:1000]:
            with suppress(BenchError, KeyError, HTTPException):
                with opened_episode(self._library.path(review.run), review.episode) as reader:
                    episode = reader.episode(review.episode)
                rows.append((review, episode, verdict(episode, self._library.run(reader.path).cut_off)))
                if review.verdict and episode.strict is not None and episode.invalid is None:
                    graded += 1
                    agree += (review.verdict == "good") == episode.strict
        return page_of("reviews", rows=rows, total=len(found), agree=agree, graded=graded)

    def _chosen(self, request: Request) -> tuple[list[Path], list[Run]]:
        paths = self._library.paths()
        if named := _named(request):
            wanted = set[Path]()
            for name in named:
                with suppress(KeyError):
                    wanted.add(self._library.path(name))
            paths = [path for path in paths if path in wanted]
        else:
            paths = paths[:RUNS_AT_ONCE]
        runs = [self._library.run(path) for path in paths]
        readable = [(path, run) for path, run in zip(paths, runs, strict=True) if run.summary is not None]
        return [path for path, _ in readable], [run for _, run in readable]

    def _all(self) -> list[Run]:
        return [self._library.run(path) for path in self._library.paths()[:MOST_COMPARED]]

    def _episodes(self, path: Path) -> list[StoredEpisode]:
        with suppress(StorageError):
            return self._library.episodes(path)
        return []


def _named(request: Request) -> list[str]:
    return [name for name in request.query_params.getlist("run") if name]


def _compared(episodes: list[StoredEpisode], a: str, b: str) -> dict[str, Any]:
    found = compare_alike(episodes, a, b, by=["benchmark", "split"])
    by_domain = compare_alike(episodes, a, b, by=["domain"])
    known = {episode.id: episode for episode in episodes}
    flips = []
    for row in found["rows"]:
        for way in ("fail_to_pass", "pass_to_fail"):
            for flip in row["flips"][way]:
                attempts = [known[episode] for episode in flip["episodes"]]
                left = next(filter(Side(a).matches, attempts), None)
                right = next(filter(Side(b).matches, attempts), None)
                flips.append({**flip, "way": way, "left": left, "right": right})
    rows = [row for row in found["rows"] if row["common_tasks"]]
    domains = [row for row in by_domain["rows"] if row["common_tasks"]]
    return {"rows": rows, "flips": flips, "domains": domains, "differ": how_conditions_differ(found)}
