"""The pages of runs: all of them, one of them, and tasks against agents."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from mcp_bench.bridge.viewer.links import Links, query_number
from mcp_bench.bridge.viewer.live import fingerprint, unchanged
from mcp_bench.bridge.viewer.recording_command import last_words, what_stops
from mcp_bench.bridge.viewer.recordings import Library, Run, run_of, signature
from mcp_bench.bridge.viewer.rendering import render
from mcp_bench.bridge.viewer.trees import draw_value
from mcp_bench.bridge.viewer.words import verdict
from mcp_bench.recorder.records import now_us
from mcp_bench.recorder.runs.reader import RunReader, StoredEpisode
from mcp_bench.recorder.scores.scores import summarise
from mcp_bench.recorder.store.episode_rows import Outcome

RUNS_ON_A_PAGE = 50
SECONDS_OF_A_LIST = 5
"""After which the times of attempts that go on are old."""
EPISODES_ON_A_PAGE = 500
CELLS_ON_A_PAGE, FEWEST_TASKS = 4_000, 20
"""Of the grid: as many tasks as have about so many cells, but not fewer."""
COLUMNS = 16
"""Runs in the grid: the newest ones."""
MOST_RUNS = 200
"""The newest ones, beside those that are named."""
SORTS: Mapping[str, Callable[[StoredEpisode], Any]] = {
    "task": lambda one: (one.task, one.repeat),
    "partial": lambda one: -1.0 if one.partial is None or one.invalid else one.partial,
    "calls": lambda one: one.calls,
    "failed": lambda one: one.failed_calls,
    "time": lambda one: one.seconds or 0.0,
    "tokens": lambda one: (one.usage or {}).get("input_tokens") or 0,
    "cost": lambda one: (one.usage or {}).get("cost_usd") or 0.0,
}
"""What the table of episodes can be sorted by; without a choice they are in the order of their start."""


class RunPages:
    """Handlers of these pages."""

    def __init__(self, library: Library) -> None:
        self._library = library

    def runs(self, request: Request) -> Response:
        """All runs, newest first, filtered by words."""
        words = request.query_params.get("q", "").lower().split()
        page = query_number(request, "page")
        paths = self._library.paths()
        state = self._state(paths[:RUNS_ON_A_PAGE])
        if unchanged(request, state):
            return Response(status_code=204)
        start = page * RUNS_ON_A_PAGE
        if words:
            runs = [run for run in map(self._library.run, paths) if _matches(run, words)]
            total, runs = len(runs), runs[start : start + RUNS_ON_A_PAGE]
        else:
            shown = paths[start : start + RUNS_ON_A_PAGE]
            total, runs = len(paths), [self._library.run(path) for path in shown]
        q = request.query_params.get("q", "")
        running = self._library.running(runs)
        return page_of(
            "runs",
            runs=runs,
            total=total,
            page=page,
            size=RUNS_ON_A_PAGE,
            q=q,
            running=running,
            now=now_us(),
            state=state,
        )

    def run(self, request: Request) -> HTMLResponse:
        """One run: its scores, and its episodes, filtered."""
        path = run_of(self._library, request)
        values = run_values(self._library, path, request.query_params)
        running = self._library.running([values["run"]])
        return page_of("run", **values, running=running, now=now_us())

    def grid(self, request: Request) -> HTMLResponse:
        """Tasks against runs."""
        named = request.query_params.getlist("run")
        paths = self._library.paths()
        near = paths[:MOST_RUNS] + [path for path in paths[MOST_RUNS:] if path.name in named]
        runs = [(path, self._library.run(path)) for path in near]
        benchmarks = Counter(run.summary.benchmark for _, run in runs if run.summary)
        benchmark = request.query_params.get("benchmark") or (benchmarks.most_common(1) or [("", 0)])[0][0]
        if named:
            fitting = [(path, run) for path, run in runs if run.summary and run.id in named]
        else:
            fitting = [one for one in runs if one[1].summary and one[1].summary.benchmark == benchmark]
        chosen = fitting[:COLUMNS]
        found = grid(self._library.outcomes([path for path, _ in chosen]))
        size = found.tasks_on_a_page
        page = min(query_number(request, "page"), max(0, len(found.rows) - 1) // size)
        return page_of(
            "grid",
            grid=found,
            rows=found.rows[page * size : (page + 1) * size],
            page=page,
            size=size,
            benchmark=benchmark,
            benchmarks=sorted(benchmarks),
            named=named,
            cut_off={run.id for _, run in chosen if run.cut_off},
            shown=len(chosen),
            fitting=len(fitting),
            not_read=0 if named else len(paths) - len(near),
            most=MOST_RUNS,
        )

    def _state(self, paths: Sequence[Path]) -> str:
        """Return what changes with the newest runs, and every few seconds while one of them is recorded."""
        known = [(path.name, signature(path), self._library.run(path).live) for path in paths]
        goes_on = any(live for *_, live in known)
        return fingerprint((known, int(time.monotonic() / SECONDS_OF_A_LIST) if goes_on else 0))


def page_of(template: str, links: Links | None = None, **values: Any) -> HTMLResponse:
    return HTMLResponse(render(template, links or Links(), **values))


def run_values(library: Library, path: Path, query: Any) -> dict[str, Any]:
    """Return what the page of a run shows."""
    run = library.run(path)
    if run.summary is None:
        return {
            "run": run,
            "episodes": [],
            "rows": [],
            "counts": {},
            "total": 0,
            "q": "",
            "chosen": "",
            "order": "",
            "settings": None,
            "harness": {},
            "stops": "run",
            "said": "",
        }
    episodes = library.episodes(path)
    rows = summarise(episodes, ["split", "domain"])
    words, chosen = str(query.get("q") or "").lower().split(), query.get("verdict") or ""
    shown = [
        episode
        for episode in episodes
        if (not chosen or verdict(episode, run.cut_off) == chosen)
        and all(
            word in f"{episode.task} {episode.domain} {episode.split} {episode.id}".lower() for word in words
        )
    ]
    order = str(query.get("sort") or "")
    if (key := SORTS.get(order.removeprefix("-"))) is not None:
        shown.sort(key=key, reverse=order.startswith("-"))
    return {
        "run": run,
        "order": order,
        "episodes": shown[:EPISODES_ON_A_PAGE],
        "total": len(shown),
        "rows": rows if len(rows) > 1 or any(row["partial"] is not None for row in rows) else [],
        "counts": Counter(verdict(episode, run.cut_off) for episode in episodes),
        "q": query.get("q") or "",
        "chosen": chosen,
        **_settings(path),
        "stops": what_stops(path) if run.active else "",
        "said": "" if run.active or run.complete else last_words(path),
    }


def _settings(path: Path) -> dict[str, Any]:
    """Return the options that a run was started with, and the files of its harness."""
    with RunReader(path) as reader:
        settings = reader.settings()
    shown, harness = settings.model_dump(), settings.harness
    if harness is not None:
        shown["harness"] = str(harness)
    return {"settings": draw_value(shown) if shown else None, "harness": harness.files if harness else {}}


def _matches(run: Run, words: Sequence[str]) -> bool:
    if run.summary is None:
        return all(word in run.id.lower() for word in words)
    found = run.summary
    text = " ".join(
        [run.id, found.agent, found.model or "", found.benchmark, *found.tags, found.note]
    ).lower()
    return all(word in text for word in words)


# Tasks against runs ------------------------------------------------------------------------------


@dataclass(slots=True)
class Column:
    """A column of the grid: the attempts of one agent with one model in one run."""

    run: str
    agent: str
    model: str | None
    solved: int = 0
    graded: int = 0
    partial: float = 0.0


@dataclass(slots=True)
class Grid:
    """Episodes by task and column."""

    columns: list[Column]
    rows: list[tuple[str, str, str, list[list[Outcome]]]] = field(default_factory=list)
    """Domain, split, task, and the attempts of each column."""
    cells: int = 0

    @property
    def tasks_on_a_page(self) -> int:
        return max(FEWEST_TASKS, CELLS_ON_A_PAGE * len(self.rows) // max(1, self.cells))


def grid(episodes: Iterable[Outcome]) -> Grid:
    """Return the last attempts at each task, a column for each run, agent and model."""
    columns: dict[tuple[str, str, str | None], Column] = {}
    tasks: dict[tuple[str, str, str], dict[tuple[str, str, str | None], list[Outcome]]] = {}
    cells = 0
    for episode in episodes:
        cells += 1
        key = (episode.run, episode.agent, episode.model)
        column = columns.setdefault(key, Column(*key))
        if episode.invalid is None and episode.partial is not None:
            column.graded += 1
            column.solved += bool(episode.strict)
            column.partial += episode.partial
        row = tasks.setdefault((episode.domain, episode.split, episode.task), {})
        row.setdefault(key, []).append(episode)
    order = sorted(columns, key=lambda key: (key[1], key[2] or "", key[0]))
    found = Grid([columns[key] for key in order], cells=cells)
    for (domain, split, task), row in sorted(tasks.items()):
        found.rows.append((domain, split, task, [row.get(key, []) for key in order]))
    return found
