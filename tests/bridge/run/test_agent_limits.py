"""`--agent-limit`: an agent that uses more of the machine is ended, graded, and the limit is stored."""

from collections.abc import Callable

import pytest

from tests.support.levels import each_level

pytestmark = pytest.mark.system

COMMAND = ("record", "--agent", "script", "--benchmark", "notebook", "--task", "numbers")
FORKS = """
import signal
server = Server(); server.connect()
server.call("write", key="one", value="uno-sentinel")
for _ in range(60):
    if os.fork() == 0:
        os.setsid()
        signal.pause()
signal.pause()
"""


@each_level("none")
def test_too_many_processes_end_an_agent(bench, script: Callable[[str], str], level: str) -> None:
    done = bench.run(
        *COMMAND, "--agent-option", script(FORKS), "--isolation", level, "--agent-limit", "processes=40"
    )
    (episode,) = bench.rows("select id, termination, invalid, exit_code from episodes")
    assert (episode["termination"], episode["invalid"]) == ("crash", None), done.stderr
    assert len(bench.grades()) == 1, "it is the agent's doing, so it is graded"
    assert bench.rows("select episode, kind, detail from flags") == [
        {
            "episode": episode["id"],
            "kind": "over_limit",
            "detail": "processes: more than 40, threads included",
        }
    ]
    assert "over_limit" in bench.run("show", episode["id"]).stdout
    (row,) = bench.report()
    assert row["tainted"] == 0


def test_resume_keeps_the_limits(bench, script: Callable[[str], str]) -> None:
    limit = ("--agent-limit", "processes=40", "--agent-limit", "memory=4096")
    bench.run(*COMMAND, "--agent-option", script(FORKS), *limit, "--repeat", "2")
    (run,) = bench.rows("select settings from runs")
    assert '"agent_limits":{"processes":40,"memory":4096}' in run["settings"].replace(" ", "")
    bench.run("record", "--resume", bench.run_folder.name)
    assert [row["kind"] for row in bench.rows("select kind from flags")] == ["over_limit"] * 2


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ("cpu=3", "'cpu' is not one of processes, memory"),
        ("memory=8G", "'8G' is not a whole number"),
        ("files=0", "not a whole number above 0"),
        ("files", "not of the form KEY=VALUE"),
    ],
)
def test_a_limit_that_makes_no_sense_is_refused(bench, option: str, words: str) -> None:
    done = bench.run(*COMMAND, "--agent-limit", option, code=2)
    assert words in done.stderr
