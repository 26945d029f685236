"""What is particular about opencode, with the real program. The rest: `test_agent_conformance.py`."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from mcp_bench.plugins.agent_folder import hold
from mcp_bench.plugins.contracts import LaunchRequest
from mcp_bench.plugins.opencode.agent import OpenCode
from mcp_bench.plugins.opencode.session import DATABASE, stored_time
from mcp_bench.servers.errors import WrongUseError
from tests.support.agents.agent_attempt import Attempt
from tests.support.desk.desk_script import check_conversation
from tests.support.model_endpoint.endpoint import ModelEndpoint
from tests.support.model_endpoint.fault import Fault, Gate

pytestmark = pytest.mark.system

Make = Callable[..., Attempt]


def test_offers_only_the_servers_tools_and_asks_no_title(finished_by: Callable) -> None:
    done = finished_by("opencode")
    tools = {"desk_add", "desk_desk_tidy", "desk_leave", "desk_meet", "desk_note"}
    assert [set(request.tools) for request in done.endpoint.requests] == [tools] * 4


def test_nothing_is_installed_at_the_start(finished_by: Callable) -> None:
    assert not (finished_by("opencode").work.home / ".npm").exists()


def step_reported(work: Attempt) -> bool:
    """It reports a whole step a moment after it has begun the next one."""
    return b"step_finish" in work.output.stdout.read_bytes()


@pytest.mark.parametrize(
    "fault",
    [
        {"status": 500},
        pytest.param({"status": 429}, marks=pytest.mark.full),
        pytest.param({"cut": 3}, marks=pytest.mark.full),
    ],
)
def test_stopped_while_retrying_is_a_fault(attempt: Make, endpoint: ModelEndpoint, fault: dict) -> None:
    """It retries until it is stopped, and reports nothing of it on stdout."""
    first, again = Gate(), Gate()
    endpoint.fault = Fault(gate=first, after=1, **fault)
    work = attempt(OpenCode())
    process = work.start(endpoint.openai_url)
    failed = first.arrived.wait(80)
    work.wait_until(process, step_reported)
    endpoint.fault = Fault(gate=again)
    first.release.set()
    retried = again.arrived.wait(80)
    transcript = work.finish(process, stop=True)
    assert (failed, retried) == (True, True), work.output.stderr.read_text()
    assert transcript.fault is not None
    assert transcript.fault.kind == "endpoint_error"
    assert [m.content for m in transcript.messages][:3] == ["Adding.", "3", "7"]
    assert transcript.answer is None


def test_calls_are_in_the_models_order(finished_by: Callable, tmp_path: Path) -> None:
    """Whichever ends first."""
    work = finished_by("opencode").work
    events = work.output.stdout.read_text().splitlines()
    first, second = [number for number, event in enumerate(events) if '"desk_add"' in event]
    events[first], events[second] = events[second], events[first]
    stdout = tmp_path / "stdout"
    stdout.write_text("\n".join(events))
    check_conversation(work.agent.read(replace(work.output, stdout=stdout), work.server))


KEYS = {"ANTHROPIC_API_KEY": "a", "GEMINI_API_KEY": "g", "OPENROUTER_API_KEY": "r", "SECRET": "s"}


@pytest.mark.parametrize(
    ("model", "passed"),
    [
        ("anthropic/claude-x", {"ANTHROPIC_API_KEY"}),
        ("google/gemini-x", {"GEMINI_API_KEY"}),
        ("somebody/else", {"ANTHROPIC_API_KEY", "GEMINI_API_KEY", "OPENROUTER_API_KEY"}),
        (None, {"ANTHROPIC_API_KEY", "GEMINI_API_KEY", "OPENROUTER_API_KEY"}),
        ("opencode/free", set()),
    ],
)
def test_login_of_the_models_provider_is_passed(attempt: Make, model: str | None, passed: set[str]) -> None:
    work = attempt(OpenCode(), environ=KEYS)
    found = work.agent.find(work.environ)
    request = LaunchRequest(
        "x", work.home, work.workdir, work.server, found, model=model, environ=work.environ
    )
    launch = OpenCode().prepare(request)
    assert {name for name in launch.env if name in KEYS} == passed


def test_endpoint_needs_a_model(attempt: Make) -> None:
    with pytest.raises(WrongUseError, match="--model"):
        attempt(OpenCode()).start("http://127.0.0.1:9/v1", model=None)


ROWS = "create table part (session_id text, time_updated integer)"
ENDLESS = "with recursive n(i) as (select 1 union all select i + 1 from n)"


@pytest.mark.parametrize(
    ("schema", "time"),
    [
        (f"{ROWS}; insert into part values ('ses_1', 2000)", 2.0),
        (f"create view part as {ENDLESS} select 'ses_1' as session_id, i as time_updated from n", 0.0),
        ("create view part as select 'ses_1' as session_id, zeroblob(900000000) as time_updated", 0.0),
        (
            f"{ROWS[:-1]}, big as (zeroblob(900000000)));"
            " alter table part rename column time_updated to t; alter table part rename column big to time_updated",
            0.0,
        ),
    ],
    ids=["table", "endless view", "huge view", "huge column"],
)
@pytest.mark.timeout(60)
def test_its_database_computes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, schema: str, time: float
) -> None:
    """The agent can write it: a view or a generated column must cost neither time nor room."""
    monkeypatch.setattr("mcp_bench.plugins.opencode.session.QUERY_SECONDS", 1e6)
    with closing(sqlite3.connect(tmp_path / DATABASE)) as database:
        database.executescript(schema)
        if "generated" in schema or "big" in schema:
            database.execute("insert into part (session_id, t) values ('ses_1', 1)")
        database.commit()
    folder = hold(tmp_path)
    try:
        assert stored_time(folder, "ses_1") == time
    finally:
        folder.close()
