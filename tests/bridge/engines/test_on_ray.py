"""A run on the nodes of a cluster: everything but Ray itself, for which there is a stand-in."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.bridge.engines.test_referees import HANGS_ONCE, Write, attempts, referee_of, verdict
from tests.support.engines import engine_options

pytestmark = pytest.mark.system

NOTEBOOK = ("--agent", "script", "--benchmark", "notebook", "--ray", "--jobs", "2")


@pytest.fixture
def nodes(bench: Any) -> Any:
    """The command line on a cluster of two nodes."""
    engine_options(bench, "ray")
    return bench


def test_a_lost_node_costs_its_open_episodes_only(nodes: Any, script: Write, tmp_path: Path) -> None:
    flag, ready = tmp_path / "flag", tmp_path / "ready"
    os.mkfifo(ready)
    option = script(HANGS_ONCE.format(flag=str(flag), ready=str(ready)))
    with nodes.start(
        "record", *NOTEBOOK, "--agent-option", option, "--retries", "2", "--retry-wait", "0"
    ) as run:
        agent = int(ready.read_text())
        flag.touch()
        os.kill(referee_of(agent), signal.SIGKILL)
        _, err = run.communicate(timeout=300)
    assert run.returncode == 0, err
    assert "nodes: " in err and "was lost (signal SIGKILL" in err
    assert [row for row in attempts(nodes) if row[0] == "colours"] == [("colours", 1, None)]
    assert [row for row in attempts(nodes) if row[0] == "numbers"] == [("numbers", 2, None)]
    assert len(nodes.grades()) == 2
    calls = nodes.rows("select arguments from calls order by id")
    assert {json.loads(call["arguments"])["key"] for call in calls} == {"sky", "grass", "one", "two"}
    assert len(list((nodes.run_folder / "logs").glob("*.stdout.log"))) == 2
    assert not (nodes.run_folder / "parts").exists()
    assert [path.name for path in (nodes.home / "nodes").iterdir()] == ["lock"]
    assert verdict(nodes) == "verified"


@pytest.mark.full  # the same line of processes as above, and signals as for several referee processes
def test_a_stopped_run_goes_on(nodes: Any, script: Write, tmp_path: Path) -> None:
    flag, ready = tmp_path / "flag", tmp_path / "ready"
    os.mkfifo(ready)
    option = script(HANGS_ONCE.format(flag=str(flag), ready=str(ready)))
    with nodes.start("record", *NOTEBOOK, "--agent-option", option) as run:
        ready.read_text()
        run.send_signal(signal.SIGINT)
        _, err = run.communicate(timeout=300)
    resume = ("record", "--resume", nodes.run_folder.name, "--ray")
    assert f"mcp-bench {' '.join(resume)}" in err
    assert [row for row in attempts(nodes) if row[0] == "numbers"] == [("numbers", 1, "cancelled")]
    flag.touch()
    assert json.loads(nodes.run(*resume, "--json").stdout)["strict"] == 1.0
    assert [row[1:] for row in attempts(nodes) if row[0] == "numbers"] == [(1, "cancelled"), (2, None)]
    assert verdict(nodes) == "verified"


@pytest.mark.full  # words of one line of code each
@pytest.mark.parametrize(
    ("environ", "options", "text"),
    [
        ({"RAY_AUTH_MODE": ""}, (), "Start the nodes and this command with RAY_AUTH_MODE=token"),
        ({}, ("--address", "head:6379"), "cannot reach the Ray cluster at head:6379: no such cluster"),
        ({}, ("--address", "head"), "'head' is not the HOST:PORT of a Ray cluster's head"),
        (
            {},
            ("--referees", "2"),
            "each node of a Ray cluster has one referee process: leave out the number of referees",
        ),
    ],
)
def test_what_cannot_work_is_said(
    nodes: Any, script: Write, environ: dict[str, str], options: tuple[str, ...], text: str
) -> None:
    nodes.environ |= environ
    given = ("record", *NOTEBOOK, "--agent-option", script("pass"), *options)
    assert text in nodes.run(*given, code=None).stderr
