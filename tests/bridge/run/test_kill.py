"""`kill -9` of the referee at random moments, under load: nothing that an agent has seen is lost.

With several referee processes, one of them is killed before the run's process every second time. On a cluster,
the episodes that were open are lost with their nodes: each comes home whole or not at all.

The moments come from a seeded generator: after so many responses over all agents, and so many
microseconds. One run is killed again and again, resumed each time, until it is done; then the next.
"""

from __future__ import annotations

import fcntl
import json
import os
import random
import selectors
import shutil
import signal
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from mcp_bench.recorder.runs.reader import RunReader
from tests.support.agents.busy_agent import write_busy_agent
from tests.support.engines import each_engine, engine_options

pytestmark = pytest.mark.system

SLOTS = 5
SECONDS = 300.0
"""Time limit for any step of the test."""


class Fifo:
    """The reading end of a FIFO. It is at its end only if no process has it open for writing."""

    def __init__(self, path: Path) -> None:
        os.mkfifo(path)
        self.path = path
        self.fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)

    def read(self) -> bytes | None:
        """Return the available bytes, None if there are none yet, and b"" at the end."""
        try:
            return os.read(self.fd, 1 << 16)
        except BlockingIOError:
            return None

    def until_end(self) -> None:
        """Wait until no process holds it."""
        with selectors.DefaultSelector() as selector:
            selector.register(self.fd, selectors.EVENT_READ)
            while self.read() != b"":
                assert selector.select(SECONDS), f"somebody still holds {self.path.name}"


class Sweep:
    """One run in a temporary home, killed any number of times."""

    def __init__(self, bench: Any, folder: Path, engine: str) -> None:
        folder.mkdir()
        self.bench = type(bench)(folder / "home")
        self.engine = engine
        self.options = ("--jobs", "3", *engine_options(self.bench, engine))
        self.kills = 0
        self.logs = folder / "logs"
        self.logs.mkdir()
        self.responses, self.alive = Fifo(folder / "responses"), Fifo(folder / "alive")
        self._held = os.open(self.responses.path, os.O_WRONLY)  # keeps the FIFO open between agents
        self.agent = write_busy_agent(
            folder, logs=self.logs, responses=self.responses.path, alive=self.alive.path
        )
        self.grades: dict[str, dict[str, Any]] = {}

    def close(self) -> None:
        for fd in (self.responses.fd, self.alive.fd, self._held):
            os.close(fd)

    @property
    def recorded(self) -> bool:
        """Whether there is a run: the referee can die before it is set up."""
        try:
            return bool(self.bench.rows("select 1 from runs"))
        except (FileNotFoundError, ValueError, sqlite3.OperationalError):
            return False

    def start(self) -> subprocess.Popen[str]:
        if self.recorded:
            return self.bench.start("record", *self.options, "--resume", self.bench.run_folder.name)
        # left by a referee that died while setting up its run; the next one makes a new folder
        shutil.rmtree(self.bench.home / "runs", ignore_errors=True)
        return self.bench.start(
            "record", "--agent", "script", "--agent-option", f"file={self.agent}", "--benchmark", "notebook",
            "--task", "colours", "--repeat", str(SLOTS), *self.options,
        )  # fmt: skip

    def kill_after(self, responses: int, seconds: float) -> bool:
        """Kill a referee after some responses and a delay; return whether it lived that long."""
        with self.start() as referee:
            ended = os.pidfd_open(referee.pid)
            try:
                self._wait(responses, ended)
                self.kills += 1
                if self.engine == "referees" and self.kills % 2:
                    kill_a_referee_of(referee.pid)
                    self._wait(responses // 2, ended)
                with selectors.DefaultSelector() as selector:
                    selector.register(ended, selectors.EVENT_READ)
                    done = bool(selector.select(seconds))
            finally:
                os.close(ended)
                referee.send_signal(signal.SIGKILL)
                referee.communicate(timeout=SECONDS)
        return not done

    def _wait(self, responses: int, ended: int) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(self.responses.fd, selectors.EVENT_READ)
            selector.register(ended, selectors.EVENT_READ)
            while responses > 0:
                ready = selector.select(SECONDS)
                assert ready, "the agents are stuck"
                responses -= len(self.responses.read() or b"")
                if any(key.fd == ended for key, _ in ready):
                    return

    def finish(self) -> None:
        """Resume until the run is done."""
        with self.start() as referee:
            try:
                self._wait(1 << 60, pid := os.pidfd_open(referee.pid))
                os.close(pid)
            finally:
                referee.kill()
                _, err = referee.communicate(timeout=SECONDS)
        assert referee.returncode == 0, err
        slots = self.bench.rows("select count(distinct repeat) as slots from episodes")
        assert (slots, len(self.bench.grades())) == ([{"slots": SLOTS}], SLOTS)

    def received(self) -> list[str]:
        """Return every response that an agent has read."""
        return [line for log in self.logs.iterdir() for line in log.read_text().splitlines()]

    def check(self) -> int:
        """Check the invariants after a kill; return how many responses were compared."""
        self.alive.until_end()
        while self.responses.read():
            pass
        for lock in self.bench.home.glob("runs/*/parts/*/lock"):  # referee processes end after their agents
            with lock.open("rb") as held:
                fcntl.flock(held, fcntl.LOCK_EX)
        received = self.received()
        if not self.recorded:
            assert not received or self.engine == "ray"
            return 0
        RunReader(
            self.bench.run_folder
        ).close()  # repairs the run, as any command does, before SQLite's tools read it
        for name in ("recordings.db", "grades.db"):
            path = self.bench.run_folder / name
            if path.exists():
                with closing(sqlite3.connect(path)) as db:
                    assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
                    assert db.execute("PRAGMA foreign_key_check").fetchall() == []
        frames = {
            row["line"]
            for row in self.bench.rows(
                "select cast(body as text) as line from frames where direction = 'server'"
            )
        }
        if self.engine == "ray":
            home = {agent_of(line) for line in frames}
            received = [line for line in received if agent_of(line) in home]
        assert [line for line in received if line + "\n" not in frames] == []
        settled = {
            row["rpc_id"]: row["outcome"]
            for row in self.bench.rows("select rpc_id, outcome from calls where response_frame is not null")
        }
        answers = [json.loads(line) for line in received]
        calls = [answer for answer in answers if "content" in answer.get("result", {})]
        outcomes = ["tool_error" if answer["result"].get("isError") else "ok" for answer in calls]
        assert [settled.get(json.dumps(answer["id"])) for answer in calls] == outcomes
        # a referee process whose run was killed answers what is in progress: the connection is closed
        failed = {
            settled.get(json.dumps(answer["id"]), "rpc_error") for answer in answers if "error" in answer
        }
        assert failed <= {"rpc_error"}
        self._check_grades()
        return len(received)

    def _check_grades(self) -> None:
        if not (self.bench.run_folder / "grades.db").exists():
            return
        try:
            grades = {row["episode"]: row for row in self.bench.grades()}
        except sqlite3.OperationalError:  # killed before the table was created
            grades = {}
        for episode, row in self.grades.items():
            assert grades[episode] == row
        self.grades = grades
        graded = [
            row["repeat"]
            for row in self.bench.rows(
                "select * from episodes where invalid is null and ended_us is not null"
            )
            if row["id"] in grades
        ]
        assert len(graded) == len(set(graded)) == len(grades)


def agent_of(line: str) -> str:
    """Return what the ids of an agent's requests begin with."""
    return str(json.loads(line)["id"]).partition("-")[0]


def kill_a_referee_of(run: int) -> None:
    """Kill one of the referee processes of a run, if it has any yet."""
    for child in Path(f"/proc/{run}/task/{run}/children").read_text().split():
        with suppress(OSError):
            if b"bridge.run.referee" in Path(f"/proc/{child}/cmdline").read_bytes():
                os.kill(int(child), signal.SIGKILL)
                return


@contextmanager
def sweep(bench: Any, folder: Path, engine: str) -> Iterator[Sweep]:
    opened = Sweep(bench, folder, engine)
    try:
        yield opened
    finally:
        opened.close()


def moments(seed: int, count: int) -> Iterator[tuple[int, float]]:
    chance = random.Random(seed)
    for _ in range(count):
        if chance.random() < 0.15:  # during start-up
            yield 0, chance.uniform(0, 1.5)
        else:
            yield chance.choice([1, 5, 20, 60, 150]) + chance.randrange(20), chance.uniform(0, 0.005)


def kill_at(bench: Any, tmp_path: Path, engine: str, seed: int, count: int) -> str:
    """Kill at `count` moments; return the results."""
    planned = moments(seed, 10 * count)
    kills = runs = compared = graded = 0
    while kills < count:
        runs += 1
        with sweep(bench, tmp_path / f"run-{runs}", engine) as run:
            going = True
            while going and kills < count:
                going = run.kill_after(*next(planned))
                kills += going
                compared += run.check()
            if run.recorded:
                run.finish()
                compared += run.check()
                graded += len(run.grades)
    return f"{kills} kills in {runs} runs, {compared} responses compared, {graded} episodes graded once"


@each_engine(full=("ray",))
def test_a_killed_referee_has_stored_what_its_agents_received(
    bench: Any, tmp_path: Path, engine: str
) -> None:
    print(kill_at(bench, tmp_path, engine, seed=1, count=5 if engine == "local" else 3))


@pytest.mark.full
@pytest.mark.parametrize("seed", range(100, 110))
def test_200_kills_of_the_referee(bench: Any, tmp_path: Path, seed: int) -> None:
    print(kill_at(bench, tmp_path, "local", seed, 20))


@pytest.mark.full
@pytest.mark.parametrize("seed", range(200, 205))
def test_100_kills_of_several_referees(bench: Any, tmp_path: Path, seed: int) -> None:
    print(kill_at(bench, tmp_path, "referees", seed, 20))
