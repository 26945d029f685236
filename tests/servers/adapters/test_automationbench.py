"""AutomationBench's adapter, on a contract double of the package.

The double is `tests/support/automationbench_double`: it is not AutomationBench, and its tasks are ours.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from mcp_bench.recorder.importers.conversation import tool_schemas
from mcp_bench.servers.adapters.remotes import AUTOMATIONBENCH
from mcp_bench.servers.mcp_server.world_session import WorldSession
from mcp_bench.servers.remote import RemoteBenchmark
from tests.support import ROOT
from tests.support.bench_commands import Bench

pytestmark = [pytest.mark.system, pytest.mark.anyio]

DOUBLE = ROOT / "tests" / "support" / "automationbench_double"


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return an interpreter that has the double."""
    script = tmp_path_factory.mktemp("double") / "python"
    script.write_text(
        f'#!/bin/sh\nPYTHONPATH={DOUBLE} PYTHONDONTWRITEBYTECODE=1 exec {sys.executable} "$@"\n'
    )
    script.chmod(0o755)
    return str(script)


@pytest.fixture(scope="module")
def bench(python: str) -> Iterator[RemoteBenchmark]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(AUTOMATIONBENCH.python_variable, python)
        yield AUTOMATIONBENCH
        anyio.run(AUTOMATIONBENCH.aclose)


async def opened(bench: RemoteBenchmark, task_id: str) -> WorldSession:
    return WorldSession(await bench.open(task_id))


async def fetch(session: WorldSession, method: str, url: str, **body: str) -> dict[str, Any]:
    arguments: dict[str, Any] = {"method": method, "url": url, "body": json.dumps(body)}
    answer: dict[str, Any] = json.loads((await session.call("api_fetch", arguments)).text)
    return answer


async def test_public_tasks_are_listed_by_split(bench: RemoteBenchmark) -> None:
    (task,) = bench.tasks()
    assert (task.id, task.domain, task.split) == ("sales.follow_up", "sales", "test")
    assert (task.system, task.prompt) == ("Work.", "Do sales.follow_up.")
    assert [one.id for one in bench.tasks("dev")] == ["simple.write_0", "simple.write_5"]
    assert len(list(bench.tasks("train"))) == 4
    assert bench.reference(task.id) is None


async def test_tools_are_upstreams_without_the_world(bench: RemoteBenchmark) -> None:
    """The importer of the leaderboard's trajectories reads the same schemas."""
    tools = {one.name: one for one in bench.tools()}
    assert list(tools) == ["api_search", "api_fetch", "base64_encode"]
    schema = tools["api_fetch"].input_schema
    properties: Any = schema["properties"]
    assert list(properties) == ["method", "url", "params", "body"] and schema["required"] == ["method", "url"]
    assert tools["api_fetch"].description == "Call an API."
    assert properties["method"] == {"type": "string", "description": "GET, POST or DELETE."}
    rows = [
        {"name": one.name, "description": one.description, "parameters": one.input_schema}
        for one in tools.values()
    ]
    assert [one.function.name for one in tool_schemas(rows)] == list(tools)


async def test_grade_is_upstreams_on_the_live_world(bench: RemoteBenchmark) -> None:
    session = await opened(bench, "sales.follow_up")
    nothing = await session.world.grade("")
    assert (nothing.partial, nothing.strict) == (0.0, False)
    await fetch(session, "POST", "/gmail/send", to="ada@example.com")
    half = await session.world.grade("")
    assert (half.partial, half.strict) == (0.5, False)
    assert [(one.name, one.kind, one.passed) for one in half.assertions] == [
        ("1 gmail_sent_to", "objective", True),
        ("2 google_sheets_row_gone", "objective", False),
        ("3 gmail_not_sent_to", "guardrail", True),
    ]
    await fetch(session, "DELETE", "/google_sheets/rows", id="r1")  # in no dump
    assert (await session.world.grade("")).strict
    await fetch(session, "POST", "/gmail/send", to="eve@example.com")
    assert (await session.world.grade("")).partial == pytest.approx(2 / 3)


async def test_only_apps_of_the_task_answer(bench: RemoteBenchmark) -> None:
    """`google_sheets_row_gone` grants `google_sheets`, and not `google`."""
    session = await opened(bench, "sales.follow_up")
    assert (await fetch(session, "GET", "/google/rows"))["status"] == 401
    rows = await fetch(session, "GET", "/google_sheets/rows")
    assert rows == {"status": 200, "data": [{"id": "r1", "name": "Ada", "notes": []}]}  # without padding


async def test_the_same_task_has_the_same_ids_and_clock(bench: RemoteBenchmark) -> None:
    one, two, other = [await opened(bench, f"simple.write_{number}") for number in (1, 1, 2)]
    turns = (one, other, two, one, two)  # each world has chance of its own
    answers = [await fetch(session, "POST", "/gmail/send", to="ada@example.com") for session in turns]
    sent = [answer["data"] for answer in answers]
    assert sent[0] == sent[2] and sent[3] == sent[4]
    assert len({mail["id"] for mail in sent}) == 3
    assert sent[0]["at"] == "2026-01-05T09:00:00+00:00"


async def test_an_empty_object_is_no_argument(bench: RemoteBenchmark) -> None:
    """Models write `{}` for nothing; upstream's agent leaves it out before the call."""
    session = await opened(bench, "sales.follow_up")
    rows = await session.call(
        "api_fetch", {"method": "GET", "url": "/google_sheets/rows", "params": {}, "body": {}}
    )
    assert json.loads(rows.text)["status"] == 200


async def test_attempts_share_no_records(bench: RemoteBenchmark) -> None:
    for _ in range(2):
        session = await opened(bench, "sales.follow_up")
        assert (await fetch(session, "GET", "/google_sheets/rows"))["data"][0]["notes"] == []
        await fetch(session, "POST", "/google_sheets/notes", text="called")
        assert (await fetch(session, "GET", "/google_sheets/rows"))["data"][0]["notes"] == ["called"]


async def test_what_breaks_a_check_earns_nothing(bench: RemoteBenchmark) -> None:
    """Otherwise an agent that is about to fail could have its attempt repeated."""
    session = await opened(bench, "simple.write_0")
    await session.call("api_fetch", {"method": "POST", "url": "/gmail/send", "body": '{"to": 5}'})
    grade = await session.world.grade("")
    assert (grade.partial, grade.strict) == (0.0, False)
    assert [(one.name, one.passed) for one in grade.assertions] == [("the checks", False)]
    assert "AttributeError" in grade.assertions[0].detail


async def test_a_tools_exception_is_its_text(bench: RemoteBenchmark) -> None:
    session = await opened(bench, "sales.follow_up")
    result = await session.call("api_fetch", {"method": "GET", "url": "/gmail/none"})
    assert (result.text, result.is_error) == ("no endpoint GET /gmail/none", True)
    refused = await session.call("api_fetch", {"method": "GET"})
    assert refused.is_error and "api_fetch() " in refused.text
    own = await session.call("api_fetch", {"method": "GET", "url": "/google_sheets/rows", "world": 5})
    assert json.loads(own.text)["status"] == 200, "the world is not the agent's to give"


async def test_record_grades_an_agent_that_does_nothing(bench_home: Path, python: str) -> None:
    bench = Bench(bench_home, {AUTOMATIONBENCH.python_variable: python})
    bench.run("record", "--benchmark", "automationbench", "--agent", "noop")
    assert [(row["partial"], row["strict"]) for row in bench.grades()] == [(0.0, 0)]
