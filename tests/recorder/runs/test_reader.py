"""What a reader of a run says about names it does not know, and about rows that are damaged."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest

from mcp_bench.recorder.errors import StorageError
from mcp_bench.recorder.runs.reader import RunReader
from mcp_bench.recorder.runs.run_folder import RunFolder
from mcp_bench.servers.contracts import Score
from mcp_bench.servers.errors import UnknownNameError
from tests.support.recorded import Episode, planned, record

pytestmark = pytest.mark.component

BROKEN, OTHER = '{"a":', "[1]"
READS: dict[str, tuple[str, str, str, Callable[[RunReader, str], Any]]] = {
    "settings": ("recordings", "runs", "settings", lambda reader, _: reader.settings()),
    "info": ("recordings", "runs", "settings", lambda reader, _: reader.info()),
    "its settings": ("recordings", "runs", "settings", lambda reader, one: reader.episode(one)),
    "episode": ("recordings", "episodes", "usage", lambda reader, one: reader.episode(one)),
    "episodes": ("recordings", "episodes", "usage", lambda reader, _: list(reader.episodes())),
    "tools": ("recordings", "episodes", "tools", lambda reader, one: reader.tools(one)),
    "messages": ("recordings", "messages", "tool_calls", lambda reader, one: reader.messages(one)),
    "calls": ("recordings", "calls", "arguments", lambda reader, one: reader.calls(one)),
    "executed": ("recordings", "calls", "arguments", lambda reader, one: list(reader.executed_calls(one))),
    "assertions": ("grades", "grades", "assertions", lambda reader, one: reader.assertions(one)),
    "metrics": ("grades", "grades", "metrics", lambda reader, one: reader.metrics(one)),
    "state": ("grades", "grades", "final_state", lambda reader, one: reader.final_state(one)),
    "submissions": ("grades", "scores", "submissions", lambda reader, one: reader.submissions(one)),
}


@pytest.fixture
def recorded(bench_home: Any) -> tuple[RunFolder, str]:
    score = Score(name="x", value=1.0, baseline=0.0, par=2.0)
    folder, (episode,) = record([(planned(), Episode(score=score, submissions=[score]))])
    return folder, episode


@pytest.mark.parametrize(
    ("what", "value"),
    [
        *((what, BROKEN) for what in READS),
        *((what, OTHER) for what in ("settings", "episode", "tools", "assertions", "metrics", "submissions")),
    ],
)
def test_a_damaged_value_is_an_error_of_the_store(
    what: str, value: str, recorded: tuple[RunFolder, str]
) -> None:
    folder, episode = recorded
    file, table, column, read = READS[what]
    with RunReader(folder.path) as reader:
        assert read(reader, episode)
    with closing(sqlite3.connect(folder.path / f"{file}.db")) as db, db:
        db.execute(f"UPDATE {table} SET {column} = ?", [value])
    with (
        RunReader(folder.path) as reader,
        pytest.raises(StorageError, match=rf"has a damaged row .*`mcp-bench verify {folder.path.name}`"),
    ):
        read(reader, episode)


@pytest.mark.parametrize("name", ["episode", "tools", "system"])
def test_an_unknown_episode_is_named(name: str, recorded: tuple[RunFolder, str]) -> None:
    folder, episode = recorded
    with RunReader(folder.path) as reader:
        with pytest.raises(UnknownNameError, match=f"unknown episode 'ep_none' .*{episode}"):
            getattr(reader, name)("ep_none")
        assert reader.calls("ep_none") == reader.assertions("ep_none") == []
        assert reader.metrics("ep_none") == {}
