"""The real AgentDojo in its worker: tasks, tools, results and grades."""

import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from itertools import groupby
from typing import Any

import anyio
import pytest

from mcp_bench.servers.agentdojo import BENCHMARK
from mcp_bench.servers.agentdojo.facts import VACUOUS_TASKS
from mcp_bench.servers.contracts import VACUOUS, Reference, World
from mcp_bench.servers.errors import MissingDependencyError, UnknownNameError
from mcp_bench.servers.extras import install_extra
from mcp_bench.servers.grading import Grade
from mcp_bench.servers.mcp_server.world_session import WorldSession
from mcp_bench.servers.remote import RemoteBenchmark

pytestmark = [pytest.mark.anyio, pytest.mark.system]

# from every suite: tasks with state changes, graded text, graded calls, and graded text and calls
SAMPLE = [
    "banking/user_task_0",
    "banking/user_task_1",
    "banking/user_task_15",
    "slack/user_task_0",
    "slack/user_task_11",
    "slack/user_task_20",
    "travel/user_task_0",
    "travel/user_task_3",
    "travel/user_task_19",
    "workspace/user_task_1",
    "workspace/user_task_8",
    "workspace/user_task_19",
    "workspace/user_task_24",
    "workspace/user_task_37",
]
READING = re.compile("get_|search_|list_|read_|check_")


@pytest.fixture(scope="module")
def dojo() -> Iterator[RemoteBenchmark]:
    yield BENCHMARK
    anyio.run(BENCHMARK.aclose)


async def play(dojo: RemoteBenchmark, task_id: str, skip: int | None = None) -> World:
    """Open a world and make the reference calls on it like a client, except one."""
    world = await dojo.open(task_id)
    session = WorldSession(world)
    for number, call in enumerate(reference(dojo, task_id).calls):
        if number != skip:
            result = await session.call(call.name, dict(call.arguments))
            assert not result.is_error or skip is not None, (task_id, call, result)
    return world


def reference(dojo: RemoteBenchmark, task_id: str) -> Reference:
    found = dojo.reference(task_id)
    assert found is not None
    return found


async def oracle(dojo: RemoteBenchmark, task_id: str) -> Grade:
    world = await play(dojo, task_id)
    grade = await world.grade(reference(dojo, task_id).answer)
    await world.close()
    return grade


def test_parent_does_not_import_the_package() -> None:
    look = (
        "import sys; import mcp_bench.servers.agentdojo as ours; ours.BENCHMARK.version;"
        "print([m for m in sys.modules if m.split('.')[0] in ('agentdojo', 'mcp', 'openai', 'jsonschema')])"
    )
    assert subprocess.check_output([sys.executable, "-I", "-c", look], text=True) == "[]\n"


DEFERRED = """
import sys
from mcp_bench.servers.agentdojo.benchmark import BENCHMARK
list(BENCHMARK.tasks())
sdks = ("anthropic", "cohere", "google.genai", "openai", "pandas", "polars")
print([name for name in sdks if name in sys.modules])
from agentdojo.agent_pipeline.llms import google_llm
print(google_llm.EMPTY_FUNCTION_NAME in open(google_llm.__file__).read())
"""


def test_worker_does_not_import_the_sdks_of_models() -> None:
    """They take longer than all the rest. What stands for a constant of theirs is that constant."""
    shown = subprocess.check_output([sys.executable, "-I", "-c", DEFERRED], text=True)
    assert shown == "[]\nTrue\n"


@pytest.mark.full
def test_what_is_deferred_is_there_when_it_is_needed() -> None:
    """The parts of AgentDojo that the worker leaves out come with the first request for them."""
    then = (
        "import mcp_bench.servers.agentdojo.benchmark, sys;"
        "from agentdojo.agent_pipeline.llms.google_llm import EMPTY_FUNCTION_NAME, GoogleLLM;"
        "from agentdojo.agent_pipeline import AgentPipeline, GroundTruthPipeline;"
        "import pandas; print(EMPTY_FUNCTION_NAME, GoogleLLM.__name__, AgentPipeline.__name__)"
    )
    shown = subprocess.check_output([sys.executable, "-I", "-c", then], text=True)
    assert shown == "<empty-function-name> GoogleLLM AgentPipeline\n"


async def test_ninety_two_tasks_in_even_splits(dojo: RemoteBenchmark) -> None:
    found = list(dojo.tasks())
    assert found == list(dojo.tasks("all"))
    assert len({task.id for task in found}) == 92
    assert Counter(task.domain for task in found) == {
        "workspace": 40,
        "travel": 20,
        "banking": 11,
        "slack": 21,
    }
    assert Counter((task.domain, task.split) for task in found) == {
        ("workspace", "train"): 24, ("workspace", "dev"): 8, ("workspace", "test"): 8,
        ("travel", "train"): 12, ("travel", "dev"): 4, ("travel", "test"): 4,
        ("banking", "train"): 7, ("banking", "dev"): 2, ("banking", "test"): 2,
        ("slack", "train"): 13, ("slack", "dev"): 4, ("slack", "test"): 4,
    }  # fmt: skip
    by_split = {split: list(dojo.tasks(split)) for split in ("train", "dev", "test")}
    assert sorted(task.id for part in by_split.values() for task in part) == sorted(task.id for task in found)
    # must never change: moving a task to another split makes all earlier results incomparable
    assert [task.id for task in by_split["dev"]][:4] == [
        "workspace/user_task_0", "banking/user_task_0", "banking/user_task_1", "slack/user_task_3"
    ]  # fmt: skip
    assert {task.domain for task in dojo.tasks(None, 4)} == {"workspace", "travel", "banking", "slack"}


async def test_vacuous_tasks_are_listed_only_by_id(dojo: RemoteBenchmark) -> None:
    assert not {task.id for task in dojo.tasks("all")} & VACUOUS_TASKS
    for task_id in VACUOUS_TASKS:
        assert VACUOUS in dojo.task(task_id).tags
        grade = await (await dojo.open(task_id)).grade("")
        assert grade.strict  # the reason for leaving them out


async def test_unknown_names_suggest_similar_ones(dojo: RemoteBenchmark) -> None:
    with pytest.raises(UnknownNameError, match=r"unknown split 'tran' .*did you mean train"):
        list(dojo.tasks("tran"))
    with pytest.raises(UnknownNameError, match=r"unknown agentdojo task .*did you mean banking/user_task_9"):
        dojo.task("banking/user_task_99")
    with pytest.raises(UnknownNameError, match="slack/user_task_0"):
        await dojo.open("slak/user_task_0")
    with pytest.raises(UnknownNameError):
        dojo.reference("slack")


async def test_tools_are_described_for_an_agent(dojo: RemoteBenchmark) -> None:
    for suite, count in (("workspace", 24), ("travel", 28), ("banking", 11), ("slack", 11)):
        session = WorldSession(await dojo.open(f"{suite}/user_task_0"))
        assert len(session.tools) == count + 1
        assert session.tools[-1].name == "submit_answer"
        for tool in session.tools:
            schema: dict[str, Any] = tool.input_schema
            assert tool.description
            assert schema["type"] == "object" and schema["additionalProperties"] is False
            assert "$ref" not in str(schema)
            assert all(inner.get("description") for inner in schema["properties"].values()), tool
    share = next(
        tool for tool in (await dojo.open("workspace/user_task_0")).tools() if tool.name == "share_file"
    )
    assert share.input_schema["properties"]["permission"] == {  # type: ignore[index,call-overload]
        "description": "The permission level to grant the user.",
        "enum": ["r", "rw"],
        "type": "string",
    }


async def test_results_have_agentdojos_own_wording(dojo: RemoteBenchmark) -> None:
    world = await dojo.open("workspace/user_task_0")
    assert (await world.call("get_current_day", {})).text == "2024-05-15"
    listing = (await world.call("search_contacts_by_name", {"query": "Sarah Baker"})).text
    assert listing == "- email: sarah.baker@gmail.com\n  name: Sarah Baker"
    refused = await world.call("delete_file", {"file_id": "999"})
    assert refused.is_error
    assert refused.text == "ValueError: File with ID '999' not found."


async def test_submitted_answer_takes_precedence_over_last_message(dojo: RemoteBenchmark) -> None:
    task_id = "workspace/user_task_1"
    answer = reference(dojo, task_id).answer
    assert (await (await dojo.open(task_id)).grade(answer)).strict
    world = await dojo.open(task_id)
    await world.call("submit_answer", {"answer": "no idea"})
    assert not (await world.grade(answer)).strict
    await world.call("submit_answer", {"answer": answer})
    assert (await world.grade("no idea")).strict


async def test_only_clock_times_differ_between_runs(dojo: RemoteBenchmark) -> None:
    ignored = re.compile(rf"^\s*-?\s*({'|'.join(dojo.replay_ignores)}):.*$", re.MULTILINE)
    for task_id in ("workspace/user_task_19", "workspace/user_task_32", "travel/user_task_3"):
        texts = []
        for _ in range(2):
            session = WorldSession(await dojo.open(task_id))
            texts.append(
                [(await session.call(c.name, dict(c.arguments))).text for c in reference(dojo, task_id).calls]
            )
        assert texts[0] != texts[1]
        assert [ignored.sub("", text) for text in texts[0]] == [ignored.sub("", text) for text in texts[1]]


async def test_unexpected_change_lowers_the_grade(dojo: RemoteBenchmark) -> None:
    task_id = "slack/user_task_11"
    partly = await (await play(dojo, task_id, skip=4)).grade("")
    world = await play(dojo, task_id, skip=4)
    await world.call("send_direct_message", {"recipient": "Alice", "body": "by the way"})
    worse = await world.grade("")
    guardrails = [found for found in worse.assertions if found.kind == "guardrail"]
    assert [found.passed for found in guardrails] == [False]
    assert "by the way" in guardrails[0].detail
    assert 0 < worse.partial < partly.partial < 1


async def test_a_snapshot_shows_the_final_state(dojo: RemoteBenchmark) -> None:
    world = await play(dojo, "banking/user_task_14")
    state: Any = await world.snapshot()
    assert state["user_account"]["password"] == "1j1l-2k3j"


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_an_mcp_client_solves_a_task(dojo: RemoteBenchmark, connect: Any, mode: str) -> None:
    task_id = "workspace/user_task_4"  # grades a change and an answer
    world = await dojo.open(task_id)
    found = reference(dojo, task_id)
    async with connect(WorldSession(world), mode) as client:
        assert [tool.name for tool in (await client.list_tools()).tools][-1] == "submit_answer"
        guess = await client.call_tool("create_calendar_event", {"title": "Lunch", "participants": "Sarah"})
        assert guess.is_error and "'participants' must be array or null" in guess.content[0].text
        for call in found.calls:
            assert not (await client.call_tool(call.name, dict(call.arguments))).is_error
        await client.call_tool("submit_answer", {"answer": found.answer})
    assert (await world.grade("")).strict


async def check_oracle_and_noop(dojo: RemoteBenchmark, task_id: str) -> None:
    played = await oracle(dojo, task_id)
    assert played.strict and played.partial == 1, (task_id, played)
    assert all(assertion.passed for assertion in played.assertions), (task_id, played)
    idle = await (await dojo.open(task_id)).grade("")
    assert not idle.strict and idle.partial == 0, (task_id, idle)


async def check_dropped_call(dojo: RemoteBenchmark, task_id: str) -> None:
    """Leave out each state-changing call in turn: the attempt is not strict, and partial is below 1."""
    found = reference(dojo, task_id)
    for number, call in enumerate(found.calls):
        if READING.match(call.name):
            continue
        spoiled = await (await play(dojo, task_id, skip=number)).grade(found.answer)
        made = spoiled.metrics["made_changes"]
        assert made < spoiled.metrics["expected_changes"], (task_id, call)
        if not spoiled.strict:  # some graders do not check every change
            assert spoiled.partial < 1, (task_id, call)


@pytest.mark.parametrize("task_id", SAMPLE)
async def test_oracle_passes_and_noop_fails(dojo: RemoteBenchmark, task_id: str) -> None:
    await check_oracle_and_noop(dojo, task_id)


@pytest.mark.parametrize("task_id", ["slack/user_task_20", "workspace/user_task_19", "banking/user_task_15"])
async def test_dropped_call_lowers_partial_credit(dojo: RemoteBenchmark, task_id: str) -> None:
    await check_dropped_call(dojo, task_id)
    found = reference(dojo, task_id)
    deeds = [number for number, call in enumerate(found.calls) if not READING.match(call.name)]
    last = await (await play(dojo, task_id, skip=deeds[-1])).grade(found.answer)
    assert not last.strict and 0 < last.partial < 1


@pytest.mark.full
@pytest.mark.parametrize("domain", ["workspace", "travel", "banking", "slack"])
async def test_oracle_passes_and_noop_fails_on_every_task(dojo: RemoteBenchmark, domain: str) -> None:
    tasks = {
        key: list(found)
        for key, found in groupby(sorted(t.id for t in dojo.tasks()), lambda i: i.split("/")[0])
    }
    for task_id in tasks[domain]:
        await check_oracle_and_noop(dojo, task_id)
        await check_dropped_call(dojo, task_id)


async def test_a_missing_package_says_how_to_install_it(tmp_path: Any) -> None:
    # an interpreter with every package except agentdojo
    bare = tmp_path / "python"
    bare.write_text(
        f"#!{sys.executable} -I\n"
        "import sys\n"
        "sys.modules['agentdojo'] = None\n"
        "from mcp_bench.servers.remote.worker import main\n"
        "main(*sys.argv[-2:])\n"
    )
    bare.chmod(0o755)
    without = RemoteBenchmark(
        BENCHMARK.name,
        "mcp_bench.servers.agentdojo.benchmark:BENCHMARK",
        version=BENCHMARK.version,
        python=str(bare),
        install=BENCHMARK.install,
    )
    with pytest.raises(MissingDependencyError, match=re.escape(install_extra("agentdojo"))):
        without.task("banking/user_task_0")
