"""Several referee processes record one run."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from mcp_bench.bridge.engines.messages import Work
from mcp_bench.bridge.engines.referee import Referee, RefereeError
from mcp_bench.bridge.engines.referees import Referees
from mcp_bench.bridge.run.choices import Choices
from mcp_bench.bridge.run.setup import start_run
from tests.support.processes.process_table import ancestors
from tests.support.recorded import run_info

pytestmark = pytest.mark.system

Write = Callable[[str], str]
TWO = ("--jobs", "2", "--referees", "2", "--retries", "2", "--retry-wait", "0")
HANGS_ONCE = """
server = Server()
server.connect()
page = {{"colours": [("sky", "cerulean-sentinel"), ("grass", "viridian-sentinel")],
         "numbers": [("one", "uno-sentinel"), ("two", "due-sentinel")]}}
for name, notes in page.items():
    if name in CONFIG["prompt"]:
        for key, value in notes:
            server.call("write", key=key, value=value)
            if name == "numbers" and not os.path.exists({flag!r}):
                with open({ready!r}, "w") as ready:   # blocks until the test reads
                    ready.write(str(os.getpid()))
                import time; time.sleep(600)
"""


@pytest.fixture
def hanging(script: Write, tmp_path: Path) -> tuple[str, Path, Path]:
    """An agent that hangs in the second task until a flag file exists."""
    flag, ready = tmp_path / "flag", tmp_path / "ready"
    os.mkfifo(ready)
    return script(HANGS_ONCE.format(flag=str(flag), ready=str(ready))), flag, ready


def start(bench: Any, option: str) -> Any:
    given = ("--agent", "script", "--benchmark", "notebook", "--agent-option", option)
    return bench.start("record", *given, *TWO)


def referee_of(agent: int) -> int:
    """Return the process id of the referee process above an agent."""
    return next(
        pid for pid in ancestors(agent) if b"bridge.run.referee" in Path(f"/proc/{pid}/cmdline").read_bytes()
    )


def attempts(bench: Any) -> list[tuple[str, int, str | None]]:
    rows = bench.rows("select task, attempt, invalid from episodes order by task, attempt")
    return [(row["task"], row["attempt"], row["invalid"]) for row in rows]


def verdict(bench: Any) -> str:
    return str(json.loads(bench.run("verify", "--json").stdout)[0]["verdict"])


def test_a_lost_referee_costs_its_open_episodes_only(bench: Any, hanging: tuple[str, Path, Path]) -> None:
    option, flag, ready = hanging
    with start(bench, option) as run:
        agent = int(ready.read_text())
        flag.touch()
        os.kill(referee_of(agent), signal.SIGKILL)
        _, err = run.communicate(timeout=120)
    assert run.returncode == 0, err
    assert "A referee process was lost (signal SIGKILL)" in err
    assert attempts(bench) == [("colours", 1, None), ("numbers", 1, "referee_died"), ("numbers", 2, None)]
    calls = bench.rows(
        "select arguments, outcome from calls c join episodes e on e.id = c.episode"
        " where task = 'numbers' and attempt = 1"
    )
    assert [(json.loads(call["arguments"])["key"], call["outcome"]) for call in calls] == [("one", "ok")]
    assert len(bench.grades()) == 2
    assert not (bench.run_folder / "parts").exists()
    assert verdict(bench) == "verified"


@pytest.mark.full  # the same path as the killed run of one process, in test_resume
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_a_stopped_run_goes_on(bench: Any, hanging: tuple[str, Path, Path], how: signal.Signals) -> None:
    option, flag, ready = hanging
    with start(bench, option) as run:
        agent = int(ready.read_text())
        referee = os.pidfd_open(referee_of(agent))
        run.send_signal(how)
        _, err = run.communicate(timeout=120)
    if how != signal.SIGKILL:
        assert f"mcp-bench record --resume {bench.run_folder.name}" in err
    assert [row for row in attempts(bench) if row[0] == "numbers"] == [("numbers", 1, "cancelled")]
    os.close(referee)
    flag.touch()
    done = bench.run("record", "--resume", bench.run_folder.name, "--json", "--jobs", "2", "--referees", "2")
    assert json.loads(done.stdout)["strict"] == 1.0
    assert [row[1:] for row in attempts(bench) if row[0] == "numbers"] == [(1, "cancelled"), (2, None)]
    assert len(bench.grades()) == 2
    assert verdict(bench) == "verified"


@pytest.mark.full  # a variation of the test above
def test_a_second_signal_stops_at_once(bench: Any, script: Write, tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    os.mkfifo(ready)
    ignores = (
        "import signal, time\nserver = Server()\nserver.connect()\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        f"with open({str(ready)!r}, 'w') as out:\n    out.write(str(os.getpid()))\ntime.sleep(600)\n"
    )
    with start(bench, script(ignores)) as run:
        agent = int(ready.read_text())
        handles = [os.pidfd_open(pid) for pid in (agent, referee_of(agent))]
        run.send_signal(signal.SIGINT)
        assert run.stderr is not None
        while "A second signal" not in run.stderr.readline():
            pass
        run.send_signal(signal.SIGINT)
        run.communicate(timeout=120)
    assert run.returncode == 1
    for handle in handles:
        with pytest.raises(ProcessLookupError):
            signal.pidfd_send_signal(handle, 0)
        os.close(handle)


def test_a_process_that_does_not_start_is_an_error(tmp_path: Path) -> None:
    work = Work(run=run_info(), part=str(tmp_path), base_url=None, canaries=[])
    with pytest.raises(RefereeError, match=r"ended at its start: exit code 1: .*No module named"):
        anyio.run(Referee.start, work, "mcp_bench.not_there")


@pytest.mark.anyio
async def test_an_attempt_that_is_cancelled_before_it_is_ordered_ends(bench_home: Path) -> None:
    setup, run = start_run(Choices(agent="noop", limit=1, isolation="none"))
    with run, anyio.fail_after(120):
        ((planned, number),) = run.pending()
        async with Referees(setup, run, 1, print) as engine:
            with anyio.CancelScope() as stopped:
                stopped.cancel()
                await engine.attempt(planned, number, claims_count=True)
        assert stopped.cancelled_caught
        assert run.pending() == [(planned, number)]
