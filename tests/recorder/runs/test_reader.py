"""What a reader of a run says about names it does not know, and about rows that are damaged."""

from __future__ import annotations

import itertools
import sqlite3
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest

from mcp_bench.recorder.errors import StorageError
from mcp_bench.recorder.records import EpisodeEnd
from mcp_bench.recorder.runs.reader import RunReader
from mcp_bench.recorder.runs.run_folder import RunFolder
from mcp_bench.recorder.store import frame_log
from mcp_bench.recorder.store.keys import own_key
from mcp_bench.recorder.verify.verify import verify
from mcp_bench.servers.contracts import Score
from mcp_bench.servers.errors import UnknownNameError
from tests.support import recorded as recording
from tests.support.recorded import Episode, planned, play, record, run_info

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


@pytest.mark.parametrize(
    ("file", "table", "column", "value"),
    [
        ("recordings", "runs", "created_us", "soon"),
        ("recordings", "runs", "created_us", 1 << 62),
        ("recordings", "runs", "model", b"m"),
        ("recordings", "episodes", "id", "../../elsewhere"),
        ("recordings", "episodes", "ended_us", "later"),
        ("recordings", "episodes", "started_us", -1),
        ("recordings", "episodes", "attempt", 1.5),
        ("recordings", "episodes", "answer", b"yes"),
        ("recordings", "episodes", "usage", '{"input_tokens": "7"}'),
        ("recordings", "episodes", "probes", "[]"),
        ("recordings", "frames", "body", 7),
        ("grades", "grades", "partial", "all"),
    ],
)
def test_a_value_that_the_recorder_cannot_have_stored_is_an_error_of_the_store(
    file: str, table: str, column: str, value: object, recorded: tuple[RunFolder, str]
) -> None:
    """SQLite stores any value in any column. Figures are computed with them, and files named by ids."""
    folder, _ = recorded
    with closing(sqlite3.connect(folder.path / f"{file}.db")) as db, db:
        db.execute(f"UPDATE {table} SET {column} = ?", [value])
    with RunReader(folder.path) as reader, pytest.raises(StorageError, match="has a damaged row"):
        assert reader.summary()
        for episode in reader.episodes():
            reader.calls(episode.id)


def test_an_id_that_leads_elsewhere_is_in_no_list(recorded: tuple[RunFolder, str]) -> None:
    folder, _ = recorded
    with closing(sqlite3.connect(folder.path / "recordings.db")) as db, db:
        db.execute("UPDATE episodes SET id = '../../elsewhere', ended_us = NULL")
    with RunReader(folder.path) as reader:
        for read in (reader.episode_ids, lambda: list(reader.outcomes()), lambda: list(reader.running())):
            with pytest.raises(StorageError, match=r"'\.\./\.\./elsewhere' is no id"):
                read()


def test_a_copy_without_grades_is_read_as_ungraded(recorded: tuple[RunFolder, str]) -> None:
    folder, episode = recorded
    (folder.path / "grades.db").unlink()
    with RunReader(folder.path) as reader:
        assert reader.episode(episode).partial is None
        assert reader.assertions(episode) == reader.submissions(episode) == reader.asked(episode) == []
        assert reader.metrics(episode) == reader.rewards(episode) == {}
        assert reader.evidence_of_taint(episode) == reader.canaries() == []
        assert reader.final_state(episode) is None


@pytest.mark.parametrize("name", ["episode", "tools", "system"])
def test_an_unknown_episode_is_named(name: str, recorded: tuple[RunFolder, str]) -> None:
    folder, episode = recorded
    with RunReader(folder.path) as reader:
        with pytest.raises(UnknownNameError, match=f"unknown episode 'ep_none' .*{episode}"):
            getattr(reader, name)("ep_none")
        assert reader.calls("ep_none") == reader.assertions("ep_none") == []
        assert reader.metrics("ep_none") == {}


@pytest.mark.parametrize("old", [False, True])
def test_a_search_for_frames_reads_few_others(
    bench_home: Any, monkeypatch: pytest.MonkeyPatch, old: bool
) -> None:
    """There is no index of frames by episode. Every episode is scanned at its end."""
    many, few = (search_steps(count, monkeypatch, old=old)[-1] for count in (60, 20))
    assert many < 1.2 * few


def test_one_pass_finds_the_frames_of_all(bench_home: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """`mcp-bench scan` reads those of every episode."""
    steps = search_steps(60, monkeypatch, at_once=True)
    assert max(steps) < 1.2 * min(steps), steps


def test_frames_are_found_after_the_clock_was_set_back(
    bench_home: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An episode ended before another one began, says the clock, and its seal is behind the other's frames."""
    died, ended, long = (planned(repeat=repeat) for repeat in range(3))
    with RunFolder.create(run_info(died, ended, long)) as folder:
        clock = [1_000_000_000]
        for module in (frame_log, recording):
            monkeypatch.setattr(module, "now_us", lambda: clock[0])
        first = recording.begin(folder, ended)
        clock[0] += 900_000_000
        others = [recording.begin(folder, slot) for slot in (died, long)]
        for episode in others:
            folder.recording.store_frame(episode, 1, "client", recording.request(1, "transfer", {}))
        clock[0] -= 700_000_000
        for episode in (first, others[1]):
            end = EpisodeEnd(termination="agent_exit", ended_us=clock[0])
            folder.recording.store_frame(episode, 1, "client", recording.request(2, "transfer", {}))
            folder.recording.end_episode(episode, end, [])
        folder.recording.mark_died({first, others[1]})
    with RunReader(folder.path) as reader:
        assert [len(list(reader.frame_bodies(episode))) for episode in (first, *others)] == [1, 1, 2]
    assert verify(folder.path, own_key()).state == "verified"


def search_steps(
    count: int, monkeypatch: pytest.MonkeyPatch, *, at_once: bool = False, old: bool = False
) -> list[int]:
    """Return how many steps SQLite takes to find the frames of each episode of a run.

    The episodes begin a long time after each other. The frames of all are found beforehand with `at_once`;
    `old` seals do not say where those of an episode begin.
    """
    clock = itertools.count(1)
    for module in (frame_log, recording):
        monkeypatch.setattr(module, "now_us", lambda: 100_000_000 * next(clock))
    slots = [planned(repeat=repeat) for repeat in range(count)]
    with RunFolder.create(run_info(*slots)) as folder:
        episodes = [play(folder, slot, Episode()) for slot in slots]
    if old:
        with closing(sqlite3.connect(folder.path / "recordings.db")) as db, db:
            db.execute("UPDATE seals SET contents = json_remove(contents, '$.frames[2]')")
    found: list[int] = []

    def step() -> None:
        found[-1] += 1

    with RunReader(folder.path) as reader:
        if at_once:
            reader.find_frames()
        reader._connection.set_progress_handler(step, 1)
        for episode in episodes:
            found.append(0)
            assert len(list(reader.frame_bodies(episode))) == 2
    return found
