"""Retries, the circuit breaker, and what is stored about them."""

import json
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_bench.bridge.run.retry import TRANSIENT, Retries
from tests.support.model_endpoint.endpoint import ModelEndpoint
from tests.support.model_endpoint.fault import Fault
from tests.support.model_endpoint.script import Script, ScriptedCall, Step

pytestmark = pytest.mark.system

Write = Callable[[str], str]

# Counts its attempts in a file, and fails with `{fault}` in the attempts that `{when}` selects.
FAILS = """
with open({counter!r}, "a+") as counter:
    counter.write("x"); counter.flush()
    number = counter.tell()
server = Server(); server.connect()
for key, value in [("sky", "cerulean-sentinel"), ("grass", "viridian-sentinel")]:
    server.call("write", key=key, value=value)
if {when}:
    open(os.path.join(os.environ["HOME"], "fault"), "w").write({fault!r})
"""
RECORD = ("record", "--agent", "script", "--benchmark", "notebook")


@pytest.fixture
def failing(script: Write, tmp_path: Path) -> Callable[..., tuple[str, ...]]:
    """Return the command line for an agent that meets a fault in some of its attempts, counted from 1."""

    def write(fault: str, when: str = "True", task: str = "colours") -> tuple[str, ...]:
        source = FAILS.format(counter=str(tmp_path / "attempts"), when=when, fault=fault)
        return (*RECORD, "--task", task, "--retry-wait", "0", "--agent-option", script(source))

    return write


def attempts(bench) -> list[tuple[int, str | None]]:
    rows = bench.rows("select attempt, invalid from episodes order by id")
    return [(row["attempt"], row["invalid"]) for row in rows]


def test_a_transient_fault_is_retried_until_it_is_gone(bench, failing) -> None:
    done = bench.run(*failing("endpoint_error: 503", "number < 3"), "--retries", "2", "--json")
    summary = json.loads(done.stdout)
    assert (summary["invalid"], summary["retried"], summary["graded"], summary["strict"]) == (0, 2, 1, 1.0)
    assert attempts(bench) == [(1, "endpoint_error"), (2, "endpoint_error"), (3, None)]
    assert "retry in 0 s" in done.stderr
    (row,) = bench.report()
    assert (row["episodes"], row["invalid"], row["strict"]) == (1, 0, 1.0)
    assert row["earlier_attempts"] == 2
    assert "retried" in bench.run("report").stdout
    assert len(bench.grades()) == 1


def test_a_resumed_run_continues_the_attempt_numbers(bench, failing) -> None:
    done = bench.run(*failing("endpoint_error: 503", "number < 5"), "--retries", "1", "--json", code=1)
    summary = json.loads(done.stdout)
    assert (summary["invalid"], summary["retried"]) == (1, 1)
    assert f"record --resume {bench.run_folder.name}" in done.stderr
    (row,) = bench.report()
    assert (row["episodes"], row["invalid"], row["strict_invalid_as_0"]) == (1, 1, 0.0)
    bench.run("record", "--resume", bench.run_folder.name, code=1)  # the run's own --retries applies
    assert attempts(bench) == [(number, "endpoint_error") for number in (1, 2, 3, 4)]
    done = bench.run("record", "--resume", bench.run_folder.name, "--json")
    assert attempts(bench)[4:] == [(5, None)]
    assert json.loads(done.stdout)["retried"] == 4
    assert "Recorded now: 1 of 1 episode, " in done.stderr
    assert bench.report()[0]["invalid"] == 0


@pytest.mark.parametrize("kind", ["login_missing", "bad_option", "approval_needed"])
def test_permanent_faults_are_not_retried(bench, failing, kind: str) -> None:
    bench.run(*failing(f"{kind}: no"), "--retries", "3", code=1)
    assert attempts(bench) == [(1, kind)]


def test_an_agents_own_failure_is_not_retried(bench, script: Write) -> None:
    crash = "server = Server(); server.connect(); os._exit(3)"
    bench.run(*RECORD, "--retries", "3", "--retry-wait", "0", "--agent-option", script(crash))
    rows = bench.rows("select attempt, termination, invalid from episodes")
    assert rows == [{"attempt": 1, "termination": "crash", "invalid": None}] * 2


def test_an_agent_that_never_connected_is_retried(bench, script: Write) -> None:
    option = script("print('no configuration')")
    bench.run(
        *RECORD, "--limit", "1", "--retries", "1", "--retry-wait", "0", "--agent-option", option, code=1
    )
    assert attempts(bench) == [(1, "never_connected"), (2, "never_connected")]


@pytest.mark.parametrize(
    "fault",
    [
        Fault(status=429, first=1),
        pytest.param(Fault(status=500, first=1), marks=pytest.mark.full),
        pytest.param(Fault(cut=1, first=1), marks=pytest.mark.full),
    ],
)
def test_a_real_client_survives_a_short_endpoint_outage(bench, fault: Fault) -> None:
    steps = (Step((ScriptedCall("write", {"key": "sky", "value": "cerulean-sentinel"}),)), Step(text="Done."))
    with ModelEndpoint([Script("Fill the page of colours.", steps)], fault=fault) as endpoint:
        bench.run(
            "record", "--agent", "chat", "--benchmark", "notebook", "--task", "colours", "--model", "scripted",
            "--base-url", endpoint.openai_url, "--agent-option", "max_retries=0", "--retries", "1",
            "--retry-wait", "0",
        )  # fmt: skip
    assert attempts(bench) == [(1, "endpoint_error"), (2, None)]
    assert bench.grades()[0]["partial"] == 0.5
    last = bench.rows("select usage from episodes where attempt = 2")
    assert json.loads(last[0]["usage"])["model_calls"] == 2


def test_a_missing_login_ends_the_run_at_once(bench, failing, tmp_path: Path) -> None:
    """The run can be resumed once there is a login."""
    fault = failing("login_missing: run `agent login`", "number == 1")
    done = bench.run(*fault, "--repeat", "8", "--json", code=1)
    summary = json.loads(done.stdout)
    assert (summary["stopped"], summary["invalid"]) == (True, 1)
    assert "login_missing" in summary["stopped_by"]
    assert "run `agent login`" in done.stderr
    assert attempts(bench) == [(1, "login_missing")]
    resumed = bench.run("record", "--resume", bench.run_folder.name, "--jobs", "3", "--json")
    assert json.loads(resumed.stdout)["graded"] == 8
    assert bench.report()[0]["invalid"] == 0


@pytest.mark.parametrize(("kind", "made"), [("approval_needed", 5), ("endpoint_error", 20)])
def test_a_run_in_which_nothing_works_ends_early(bench, failing, kind: str, made: int) -> None:
    done = bench.run(*failing(f"{kind}: refused"), "--repeat", "25", "--retries", "0", code=1)
    assert f"Ended early: {made} episodes in a row were invalid: {kind} (refused)" in done.stderr
    assert len(attempts(bench)) == made


def test_occasional_faults_do_not_end_a_run(bench, failing) -> None:
    """Six of eight episodes are put off; two of these succeed then, and four are graded all the same."""
    done = bench.run(*failing("login_missing: once", "number % 4 != 1"), "--repeat", "8", "--json")
    assert len(attempts(bench)) == 8 + 6
    assert (json.loads(done.stdout)["graded"], json.loads(done.stdout)["claims"]) == (8, 4)


def test_ctrl_c_does_not_wait_for_the_next_attempt(bench, failing) -> None:
    command = failing("endpoint_error: 503", "number == 1")
    with bench.start(*command, "--retries", "1", "--retry-wait", "3000") as referee:
        assert referee.stderr is not None
        while "retry in" not in (line := referee.stderr.readline()):
            assert line
        referee.send_signal(signal.SIGINT)
        _, err = referee.communicate(timeout=60)
    assert referee.returncode == 1
    assert "1 invalid" in err
    assert attempts(bench) == [(1, "endpoint_error")]
    bench.run("record", "--resume", bench.run_folder.name)
    assert attempts(bench) == [(1, "endpoint_error"), (2, None)]


def test_a_resumed_run_reports_another_agent_version(bench, failing) -> None:
    bench.run(*failing("login_missing: first", "number == 1"), "--repeat", "2", code=1)
    bench.environ["SCRIPT_VERSION"] = "2.0"
    done = bench.run("record", "--resume", bench.run_folder.name)
    assert "The run started with script 1.0, but 2.0 is installed now" in done.stderr
    versions = bench.rows("select attempt, agent_version from episodes order by id")
    assert [row["agent_version"] for row in versions] == ["1.0", "2.0", "2.0"]
    episode = bench.rows("select id from episodes where attempt = 2")[0]["id"]
    assert json.loads(bench.run("show", episode, "--json").stdout)["agent_version"] == "2.0"


@given(st.integers(0, 9), st.floats(0, 1e6), st.integers(0, 2000))
def test_waits_double_within_bounds(most: int, first: float, made: int) -> None:
    retries = Retries(most, first)
    for reason in TRANSIENT:
        wait = retries.next_wait(reason, made)
        assert (wait is None) == (made >= most)
        if wait is not None:
            plain = min(first * 2**made, 300)
            assert plain <= wait <= plain * 1.25
    assert retries.next_wait(None, made) is None
    assert retries.next_wait("plugin_failed", made) is None


# Solves every page, but meets trouble on the page that `{hard}` names: then `{trouble}` runs.
SKIPS = """
def skip():
    {trouble}
if {hard!r} in CONFIG["prompt"]:
    skip()
else:
    page = {{"colours": [("sky", "cerulean-sentinel"), ("grass", "viridian-sentinel")],
             "numbers": [("one", "uno-sentinel"), ("two", "due-sentinel")]}}[CONFIG["prompt"].split()[-1][:-1]]
    server = Server(); server.connect()
    for key, value in page:
        server.call("write", key=key, value=value)
"""
FORGES = 'open(os.path.join(os.environ["HOME"], "fault"), "w").write("{}: forged")'
CONNECTS_AND = 'server = Server(); server.connect(); server.call("read", key="sky"); '


@pytest.mark.parametrize("hard", ["colours", "numbers"])
@pytest.mark.parametrize(
    ("trouble", "reason"),
    [
        ("sys.exit(3)", "never_connected"),
        (CONNECTS_AND + FORGES.format("endpoint_error"), "endpoint_error"),
        pytest.param(FORGES.format("login_missing"), "login_missing", marks=pytest.mark.full),
        pytest.param(FORGES.format("bad_option"), "bad_option", marks=pytest.mark.full),
        (CONNECTS_AND + FORGES.format("no such kind"), "plugin_failed"),
    ],
)
def test_no_task_leaves_the_scores_on_an_agents_word(
    bench, script: Write, hard: str, trouble: str, reason: str
) -> None:
    """The agent knows its task before it decides to fail, whichever task comes first."""
    option = script(SKIPS.format(hard=hard, trouble=trouble))
    done = bench.run(*RECORD, "--agent-option", option, "--json")
    summary = json.loads(done.stdout)
    assert (summary["graded"], summary["invalid"], summary["claims"]) == (2, 0, 1)
    assert f"though the agent reports {reason}" in done.stderr
    rows = bench.rows("select task, attempt, invalid from episodes where task like ? order by id", hard)
    assert rows == [
        {"task": hard, "attempt": 1, "invalid": reason},
        {"task": hard, "attempt": 2, "invalid": None},
    ]
    (row,) = bench.report()
    assert (row["episodes"], row["invalid"], row["strict"]) == (2, 0, 0.5)
    assert row["claims"] == {reason: 1}
    assert row["first_attempts"]["episodes"] == 1 and row["retried"]["episodes"] == 1
    assert (row["first_attempts"]["strict"], row["retried"]["strict"]) == (1.0, 0.0)


def test_an_endpoint_that_the_referee_saw_fail_excuses(bench) -> None:
    """With a capture proxy, the referee need not rely on the agent's word."""
    steps = (Step((ScriptedCall("write", {"key": "sky", "value": "cerulean-sentinel"}),)), Step(text="Done."))
    scripts = [Script("Fill the page of colours.", steps)]
    fault = Fault(status=503, after=2)
    with ModelEndpoint(scripts, fault=fault) as endpoint:
        bench.run(
            "record", "--agent", "chat", "--benchmark", "notebook", "--model", "scripted", "--capture-llm",
            "--base-url", endpoint.openai_url, "--agent-option", "max_retries=0", code=1,
        )  # fmt: skip
    rows = bench.rows("select task, invalid from episodes order by id")
    assert rows == [{"task": "colours", "invalid": None}, {"task": "numbers", "invalid": "endpoint_error"}]
