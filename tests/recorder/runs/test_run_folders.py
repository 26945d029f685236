import json
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from mcp_bench.recorder.errors import (
    CorruptDatabaseError,
    NewerDatabaseError,
    RunLockedError,
    StorageError,
)
from mcp_bench.recorder.records import PlannedEpisode
from mcp_bench.recorder.runs.find import run_paths
from mcp_bench.recorder.runs.lock import held_still
from mcp_bench.recorder.runs.parts import resume_run
from mcp_bench.recorder.runs.reader import RunReader
from mcp_bench.recorder.runs.run_folder import RunFolder
from mcp_bench.recorder.store import episode_rows
from mcp_bench.servers.errors import UnknownNameError
from mcp_bench.servers.home import home
from tests.support import ROOT
from tests.support.recorded import Episode, begin, planned, play, record, run_info

pytestmark = pytest.mark.system

PLAN = [planned("user_task_0"), planned("user_task_1"), planned("user_task_1", repeat=1)]


def test_a_resumed_run_repeats_ungraded_slots() -> None:
    with RunFolder.create(run_info(*PLAN)) as folder:
        assert [(slot.task, attempt) for slot, attempt in folder.pending()] == [
            ("user_task_0", 1), ("user_task_1", 1), ("user_task_1", 1),
        ]  # fmt: skip
        done = play(folder, PLAN[0], Episode())
        ungraded = play(folder, PLAN[1], Episode(partial=None))
        running = begin(folder, PLAN[2])
        info = folder.info
    with resume_run(folder.id) as resumed:
        assert resumed.info == info
        assert [(slot, attempt) for slot, attempt in resumed.pending()] == [(PLAN[1], 2), (PLAN[2], 2)]
        again = play(resumed, PLAN[1], Episode(), attempt=2)
    with RunReader(folder.path) as reader:
        states = {episode.id: (episode.invalid, episode.partial) for episode in reader.episodes()}
        assert states == {done: (None, 1.0), again: (None, 1.0), running: ("referee_died", None)}
        assert reader.episode(ungraded).invalid == "referee_died"
        assert reader.summary().done == 2  # type: ignore[union-attr]


def test_lists_of_runs_read_indexes_only() -> None:
    """A plan or the tools of an episode may have megabytes, which no list of runs shows."""
    folder, _ = record([(slot, Episode()) for slot in PLAN])
    with closing(sqlite3.connect(folder.path / "recordings.db")) as db:
        db.execute("ATTACH ? AS sealed", [str(folder.path / "grades.db")])
        for query, index in (
            (episode_rows.SUMMARY + episode_rows.COUNTED, "INDEX runs_planned"),
            (f"{episode_rows.OUTCOME}{episode_rows.LAST})", "COVERING INDEX episodes_outcome"),
            (episode_rows.COST, "COVERING INDEX episodes_outcome"),
        ):
            steps = [step for *_, step in db.execute(f"EXPLAIN QUERY PLAN {query}")]
            assert any(step.endswith(index) or f"{index} " in step for step in steps), steps


def test_a_locked_run_names_its_owner(tmp_path: Path) -> None:
    script = (
        "from tests.support.recorded import run_info; from mcp_bench.recorder.runs.run_folder import RunFolder\n"
        "folder = RunFolder.create(run_info(id='run_busy')); print('ready', flush=True); input()"
    )
    support = str(ROOT)
    pipe = subprocess.PIPE
    with subprocess.Popen(
        [sys.executable, "-c", f"import sys; sys.path.append({support!r})\n{script}"],
        stdin=pipe, stdout=pipe, text=True,
    ) as owner:  # fmt: skip
        assert owner.stdout is not None
        assert owner.stdout.readline() == "ready\n"
        with pytest.raises(RunLockedError, match=rf"process {owner.pid} on .* since \d{{4}}-.* UTC"):
            resume_run("run_busy")
        with RunReader(run_paths()[0]) as reader:  # reading works meanwhile
            assert reader.summary() is not None
        owner.kill()
    resume_run("run_busy").close()  # the lock died with its owner


def test_a_run_that_is_copied_names_no_writer() -> None:
    run, _ = record([])
    with held_still(run.path), pytest.raises(RunLockedError, match="is being copied by another process"):
        RunFolder.reopen(run.path)


def test_an_unknown_run_id_names_near_matches() -> None:
    record([], id="run_one")
    for act in (lambda: resume_run("run_oen"), lambda: run_paths(["run_oen"])):
        with pytest.raises(UnknownNameError, match="run_one"):
            act()
    with pytest.raises(UnknownNameError):
        resume_run("../runs/run_one")


def test_a_run_that_exists_is_not_overwritten() -> None:
    folder, _ = record([(PLAN[0], Episode())])
    with pytest.raises(StorageError, match="exists"):
        RunFolder.create(folder.info)
    assert folder.path.exists()


def test_an_unwritable_home_is_named(bench_home: Path) -> None:
    bench_home.write_text("a file where a folder should be")
    with pytest.raises(StorageError, match="MCP_BENCH_HOME") as raised:
        RunFolder.create(run_info())
    assert str(bench_home) in str(raised.value)


@pytest.mark.parametrize("name", ["recordings.db", "grades.db"])
def test_a_newer_database_is_refused_and_left_alone(name: str) -> None:
    folder, _ = record([(PLAN[0], Episode())])
    with closing(sqlite3.connect(folder.path / name)) as connection, connection:
        connection.execute("UPDATE _sqlite_migrations SET name = 'm999_later' WHERE id = 1")
    before = (folder.path / name).read_bytes()
    for act in (lambda: resume_run(folder.id), lambda: RunReader(folder.path)):
        with pytest.raises(NewerDatabaseError, match=rf"{name} was written by a newer .*m999_later"):
            act()
    assert (folder.path / name).read_bytes() == before


@pytest.mark.parametrize("name", ["recordings.db", "grades.db"])
def test_a_damaged_database_is_named_and_left_alone(name: str) -> None:
    folder, _ = record([(PLAN[0], Episode())])
    garbage = b"not a database at all" * 500
    (folder.path / name).write_bytes(garbage)
    for act in (lambda: resume_run(folder.id), lambda: RunReader(folder.path)):
        with pytest.raises(CorruptDatabaseError, match=name):
            act()
    assert (folder.path / name).read_bytes() == garbage


def test_a_run_that_cannot_be_opened_is_closed_again() -> None:
    folder, _ = record([(planned(), Episode())])
    files = {path.name for path in folder.path.iterdir()}
    with closing(sqlite3.connect(folder.path / "recordings.db")) as db, db:
        db.execute("UPDATE runs SET agent = 'another'")
    with pytest.raises(StorageError, match="was changed after it was stored") as caught:
        RunFolder.reopen(folder.path)
    # the error keeps all that it passed through alive
    assert {path.name for path in folder.path.iterdir()} == files, caught.value


def test_a_lost_grades_file_does_not_start_the_run_over() -> None:
    folder, _ = record([(PLAN[0], Episode())])
    (folder.path / "grades.db").unlink()
    with pytest.raises(StorageError, match=r"grades\.db is missing"):
        resume_run(folder.id)
    with RunReader(folder.path) as reader:  # the recordings can still be read
        assert [episode.partial for episode in reader.episodes()] == [None]


def test_a_closed_run_is_plain_files_for_any_tool(tmp_path: Path) -> None:
    folder, (episode,) = record([(PLAN[0], Episode())])
    assert sorted(path.name for path in folder.path.iterdir()) == [
        "grades.db",
        "lock",
        "logs",
        "recordings.db",
    ]
    copy = tmp_path / "copy.db"
    shutil.copy(folder.path / "recordings.db", copy)
    with closing(sqlite3.connect(copy)) as connection:
        # a file in WAL mode could not be read from a read-only folder
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("delete",)
        tables = {row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        names = {
            "runs",
            "episodes",
            "frames",
            "calls",
            "messages",
            "model_calls",
            "model_tokens",
            "flags",
            "seals",
            "_sqlite_migrations",
        }
        assert tables == names
        summary = connection.execute(
            "SELECT id, agent, task, termination, calls FROM episode_summary"
        ).fetchall()
        assert summary == [(episode, "oracle", "user_task_0", "agent_exit", 1)]
        assert connection.execute("SELECT result FROM call_results").fetchone() is not None


def test_a_run_killed_during_creation_is_empty(bench_home: Path) -> None:
    path = bench_home / "runs" / "run_stub"
    path.mkdir(parents=True)
    (path / "recordings.db").touch()
    with RunReader(path) as reader:
        assert reader.summary() is None
        assert list(reader.episodes()) == []


def test_home_follows_the_environment(monkeypatch: pytest.MonkeyPatch, bench_home: Path) -> None:
    assert home() == bench_home
    monkeypatch.delenv("MCP_BENCH_HOME")
    monkeypatch.setenv("XDG_DATA_HOME", "/somewhere")
    assert home() == Path("/somewhere/mcp-bench")


def test_log_paths_lie_in_the_run(folder: RunFolder) -> None:
    path = folder.log_path("ep_1", "stderr")
    path.write_text("x")
    assert path.parent == folder.path / "logs"
    assert json.loads((folder.path / "lock").read_text())["pid"]


def test_a_plan_with_a_limit_of_before_loads() -> None:
    """`Limits` once had `submissions`, which nothing enforced: stored plans still have it."""
    limits = {"open_seconds": 3, "submissions": None}
    plan = {"task": "t", "split": "s", "domain": "d", "prompt": "p", "limits": limits}
    assert PlannedEpisode.model_validate(plan).limits.open_seconds == 3
