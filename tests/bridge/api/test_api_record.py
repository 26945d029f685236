"""Recording from Python: in threads and event loops, stopped in every way, and resumed."""

import asyncio
import ctypes
import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest

from mcp_bench.api import (
    EpisodeEnded,
    EpisodeStarted,
    Event,
    Run,
    RunDiedError,
    RunEnded,
    RunLockedError,
    RunStarted,
    UnknownNameError,
    WrongUseError,
    open_home,
    record,
    record_async,
    resume,
    resume_async,
)
from mcp_bench.bridge.process.descendants import own_children
from mcp_bench.recorder.runs.lock import is_being_written
from tests.bridge.api.conftest import Hanging
from tests.support.processes.process_table import alive

pytestmark = pytest.mark.system

PR_GET_DUMPABLE, PR_GET_CHILD_SUBREAPER = 3, 37
SCRIPT = """
import sys
from mcp_bench.api import record
record("script", "notebook", agent_options={"file": sys.argv[1]})
"""


URL = "http://127.0.0.1:1/v1?key=sentinel-of-the-url"
"""An endpoint with a login, which is not stored."""


def state() -> dict[str, Any]:
    """Return what a referee changes in its own process."""
    prctl, subreaper = ctypes.CDLL(None).prctl, ctypes.c_int(-1)
    prctl(PR_GET_CHILD_SUBREAPER, ctypes.byref(subreaper), 0, 0, 0)
    return {
        "subreaper": subreaper.value,
        "dumpable": prctl(PR_GET_DUMPABLE, 0, 0, 0, 0),
        "handlers": [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD)],
        "threads": threading.active_count(),
        "files": len(list(Path("/proc/self/fd").iterdir())),
        "environment": dict(os.environ),
    }


def only_run() -> Run:
    (run,) = open_home().runs()
    return run


def finish(hanging: Hanging) -> None:
    """Resume the stopped run, and check that it is complete then."""
    stopped = only_run()
    assert [(one.task, one.outcome) for one in stopped.episodes()] == [
        ("colours", "solved"),
        ("numbers", "invalid"),
    ]
    assert stopped.episodes()[1].invalid == "cancelled"
    hanging.flag.touch()
    done = resume(stopped, progress=False)
    assert done == stopped and done.stopped_by is None
    assert [one.outcome for one in done.episodes()] == ["solved", "solved"]
    assert (done.summary.done, done.summary.strict) == (2, 1.0)


def test_two_records_at_once_in_threads_report_events() -> None:
    events: dict[str, list[Event]] = {"colours": [], "numbers": []}

    def one(task: str) -> Run:
        return record("oracle", "notebook", tasks=task, on_event=events[task].append)

    with ThreadPoolExecutor(2) as pool:
        runs = dict(zip(events, pool.map(one, events), strict=True))
    assert {run.id for run in runs.values()} == {run.id for run in open_home().runs()}
    for task, run in runs.items():
        (episode,) = run.episodes()
        started, began, ended, over = events[task]
        assert isinstance(started, RunStarted) and (started.run, started.episodes) == (run.id, 1)
        assert isinstance(began, EpisodeStarted) and began.task == task
        assert isinstance(ended, EpisodeEnded) and (ended.episode, ended.partial) == (episode.id, 1.0)
        assert (ended.done, ended.total, ended.calls) == (1, 1, episode.tool_calls)
        assert isinstance(over, RunEnded) and (over.run, over.strict, over.stopped) == (run.id, 1.0, False)
        assert episode.grade is not None and episode.grade.strict and episode.task == task


def test_the_caller_keeps_its_loop_children_and_state(capsys: pytest.CaptureFixture[str]) -> None:
    """The referee adopts orphans and ends its children, and hides its memory: none of that may be ours."""
    before = state()
    began = "sleep 600 >/dev/null 2>&1 & echo $!"  # its parent is gone at once
    orphan = int(subprocess.run(["sh", "-c", began], capture_output=True, check=True).stdout)
    with subprocess.Popen(["sleep", "600"]) as child:

        async def cell() -> Run:
            """As in a notebook: a blocking call while the loop runs."""
            run = record("oracle", "notebook", tasks=["colours"])
            await anyio.lowlevel.checkpoint()
            return run

        run = asyncio.run(cell())
        assert child.poll() is None and alive(orphan)
        child.kill()
    os.kill(orphan, signal.SIGKILL)
    assert run.summary.solved == 1
    assert state() == before
    shown = capsys.readouterr().err
    assert f"{run.id}: oracle on notebook, 1 episode, 1 at a time\n" in shown
    assert "[1/1] colours partial 1.00, strict, 2 calls" in shown


@pytest.mark.parametrize("backend", ["asyncio", pytest.param("trio", marks=pytest.mark.full)])
def test_cancelling_a_task_stops_agents_and_keeps_the_rest(hanging: Hanging, backend: str) -> None:
    recording = partial(record_async, "script", "notebook", agent_options=hanging.options, progress=False)

    async def main() -> int:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(recording)
            agent = await anyio.to_thread.run_sync(hanging.agent)
            tasks.cancel_scope.cancel()
        return agent

    assert not alive(anyio.run(main, backend=backend))
    finish(hanging)


def test_ctrl_c_stops_a_script_cleanly(hanging: Hanging) -> None:
    with script(hanging) as caller:
        agent = hanging.agent()
        caller.send_signal(signal.SIGINT)
        _, printed = caller.communicate(timeout=60)
    run = only_run()
    assert caller.returncode == -signal.SIGINT and "KeyboardInterrupt" in printed
    assert "Stopping the agents; recordings are kept." in printed
    assert f"The recordings are kept. Go on with mcp_bench.api.resume({run.id!r})" in printed
    assert not alive(agent)
    assert [one.invalid for one in run.episodes()] == [None, "cancelled"]


@pytest.mark.full
def test_a_second_ctrl_c_stops_at_once(hanging: Hanging) -> None:
    with script(hanging) as caller:
        agent = hanging.agent()
        assert caller.stderr is not None
        caller.send_signal(signal.SIGINT)
        for line in caller.stderr:
            if "Stopping the agents" in line:
                break
        caller.send_signal(signal.SIGINT)
        _, printed = caller.communicate(timeout=60)
    assert "KeyboardInterrupt" in printed
    while alive(agent):  # its supervisor ends it
        pass


def test_a_killed_caller_ends_the_run_cleanly(hanging: Hanging) -> None:
    with script(hanging) as caller:
        agent = hanging.agent()
        run = only_run()
        caller.kill()
        while is_being_written(run.path):  # the suite's own time limit bounds this
            pass
        assert not alive(agent)
    assert [one.invalid for one in run.episodes()] == [None, "cancelled"]


@pytest.mark.full
def test_a_run_has_one_writer(hanging: Hanging) -> None:
    with script(hanging) as caller:
        hanging.agent()
        with pytest.raises(RunLockedError, match="is being written by process"):
            resume(only_run().id, progress=False)
        caller.send_signal(signal.SIGINT)
        caller.communicate(timeout=60)


def test_the_home_can_come_from_the_environment(tmp_path: Path) -> None:
    place = tmp_path / "elsewhere"
    with pytest.raises(UnknownNameError):
        record("orcle", env={"MCP_BENCH_HOME": str(place)})
    run = record("oracle", "notebook", limit=1, progress=False, env={"MCP_BENCH_HOME": str(place)})
    assert run.path.parent == place / "runs" and open_home().runs() == []


@pytest.mark.parametrize("name", ["harness", "prices"])
def test_a_path_can_begin_with_the_users_home(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    named: Any = {name: "~/missing"}
    with pytest.raises(WrongUseError, match=str(tmp_path / "missing")):
        record("oracle", limit=1, progress=False, user_model="m", user_base_url=URL, **named)


def test_errors_are_those_of_the_command() -> None:
    with pytest.raises(UnknownNameError, match=r"unknown agent 'orcle' \(did you mean oracle\?\)"):
        record("orcle")
    assert open_home().runs() == []


@pytest.mark.full
@pytest.mark.parametrize("kind", [LookupError, BrokenPipeError])
def test_an_error_in_a_callback_stops_the_run(kind: type[Exception]) -> None:
    def fail(event: Event) -> None:
        if isinstance(event, EpisodeEnded):
            raise kind("mine")

    with pytest.raises(kind, match="mine") as raised:
        record("oracle", "notebook", on_event=fail)
    run = only_run()
    assert raised.value.__notes__ == [f"The recordings are kept. Go on with mcp_bench.api.resume({run.id!r})"]
    assert not is_being_written(run.path)


@pytest.mark.full
def test_a_killed_referee_is_an_error_that_says_how_to_go_on() -> None:
    before = set(own_children())

    def kill(event: Event) -> None:
        if isinstance(event, EpisodeStarted):
            (referee,) = set(own_children()) - before
            os.kill(referee, signal.SIGKILL)

    with pytest.raises(RunDiedError, match=r"signal SIGKILL.*resume\('run_"):
        record("oracle", "notebook", on_event=kill)
    assert resume(only_run(), progress=False).summary.done == 2


def script(hanging: Hanging) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", SCRIPT, hanging.options["file"]]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )


def test_an_endpoint_with_a_login_is_named_again() -> None:
    run = record("oracle", "notebook", limit=1, base_url=URL, progress=False)
    with pytest.raises(WrongUseError, match="has a login in its URL, which is not stored"):
        resume(run, progress=False)
    with pytest.raises(WrongUseError, match=r"is http://127\.0\.0\.1:1/v1"):
        resume(run, base_url="http://127.0.0.1:2/v1", progress=False)
    assert resume(run, base_url=URL, progress=False).summary.done == 1
    again = anyio.run(partial(resume_async, run, base_url=URL, progress=False))
    assert again.summary.done == 1
