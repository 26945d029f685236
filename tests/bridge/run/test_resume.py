"""Runs stopped by Ctrl-C or kill -9, and resumed."""

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.processes.process_table import alive

pytestmark = pytest.mark.system

Write = Callable[[str], str]

HANGS_ON_NUMBERS = """
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
    return script(HANGS_ON_NUMBERS.format(flag=str(flag), ready=str(ready))), flag, ready


def start(bench, option: str):
    return bench.start("record", "--agent", "script", "--benchmark", "notebook", "--agent-option", option)


def finish(bench, flag: Path) -> None:
    """Resume the run and check that both tasks end with exactly one grade."""
    flag.touch()
    done = bench.run("record", "--resume", bench.run_folder.name, "--json")
    summary = json.loads(done.stdout)
    assert (summary["episodes"], summary["episodes_now"], summary["graded"]) == (2, 1, 2)
    assert (summary["partial"], summary["strict"], summary["calls"]) == (1.0, 1.0, 4)
    assert f"{bench.run_folder.name}: partial 1.000, strict 2/2, 4 calls" in done.stderr
    assert "Recorded now: 1 of 2 episodes, partial 1.000, strict 1/1, 2 calls" in done.stderr
    tasks = bench.rows("select id, task, attempt, invalid from episodes order by started_us")
    graded = {row["episode"] for row in bench.grades()}
    assert [(row["task"], row["attempt"], row["id"] in graded) for row in tasks] == [
        ("colours", 1, True),
        ("numbers", 1, False),
        ("numbers", 2, True),
    ]


def test_a_killed_referee_loses_nothing_and_the_run_goes_on(bench, hanging: tuple[str, Path, Path]) -> None:
    option, flag, ready = hanging
    with start(bench, option) as referee:
        agent = int(ready.read_text())
        referee.kill()
        referee.communicate(timeout=60)
    calls = bench.rows("select arguments, outcome from calls order by id")
    assert [json.loads(call["arguments"])["key"] for call in calls] == ["sky", "grass", "one"]
    assert [call["outcome"] for call in calls] == ["ok"] * 3
    while alive(agent):  # its supervisor ends it; the suite's own time limit bounds this
        pass
    assert bench.report()[0]["episodes"] >= 1
    finish(bench, flag)
    (died,) = bench.rows("select invalid from episodes where task = 'numbers' and attempt = 1")
    assert died["invalid"] == "referee_died"
    assert bench.rows("pragma integrity_check") == [{"integrity_check": "ok"}]


def test_ctrl_c_ends_the_agents_and_says_how_to_go_on(bench, hanging: tuple[str, Path, Path]) -> None:
    option, flag, ready = hanging
    with start(bench, option) as referee:
        agent = int(ready.read_text())
        referee.send_signal(signal.SIGINT)
        _, err = referee.communicate(timeout=60)
    assert referee.returncode == 1
    assert f"mcp-bench record --resume {bench.run_folder.name}" in err
    assert not alive(agent)
    (stopped,) = bench.rows("select termination, invalid from episodes where task = 'numbers'")
    assert stopped == {"termination": "cancelled", "invalid": "cancelled"}
    finish(bench, flag)


def test_a_run_has_one_writer(bench, hanging: tuple[str, Path, Path]) -> None:
    option, _, ready = hanging
    with start(bench, option) as referee:
        ready.read_text()
        second = bench.run("record", "--resume", bench.run_folder.name, code=1)
        assert str(referee.pid) in second.stderr
        referee.send_signal(signal.SIGINT)
        referee.communicate(timeout=60)


def test_a_complete_run_has_nothing_left_to_record(bench) -> None:
    bench.run("record", "--agent", "oracle", "--benchmark", "notebook")
    before = bench.rows("select id from episodes")
    done = bench.run("record", "--resume", bench.run_folder.name, "--json")
    assert "complete: nothing was left to record" in done.stderr
    assert "strict 2/2, 4 calls" in done.stderr
    summary = json.loads(done.stdout)
    assert (summary["episodes"], summary["episodes_now"], summary["strict"]) == (2, 0, 1.0)
    assert bench.rows("select id from episodes") == before


def test_resume_takes_no_other_choices(bench) -> None:
    assert "leave out --agent" in bench.run("record", "--resume", "run_x", "--agent", "noop", code=2).stderr
    assert "run_x" in bench.run("record", "--resume", "run_x", code=2).stderr


def test_a_login_in_the_url_of_the_endpoint_is_not_stored(bench) -> None:
    """It is named again when the run is resumed."""
    url = "http://127.0.0.1:1/v1?key=sentinel-of-the-url"
    bench.run("record", "--agent", "oracle", "--benchmark", "notebook", "--limit", "1", "--base-url", url)
    run = bench.run_folder
    assert b"sentinel-of-the-url" not in (run / "recordings.db").read_bytes()
    refused = bench.run("record", "--resume", run.name, code=2)
    assert "Name it again, with its login: --base-url http://127.0.0.1:1/v1" in refused.stderr
    other = bench.run("record", "--resume", run.name, "--base-url", "http://127.0.0.1:2/v1", code=2)
    assert f"the endpoint of run {run.name} is http://127.0.0.1:1/v1" in other.stderr
    bench.run("record", "--resume", run.name, "--base-url", url)
