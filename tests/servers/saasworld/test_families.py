"""Properties of every task family."""

import json
from contextlib import suppress
from typing import Any

import pytest

from mcp_bench.servers.contracts import ToolCall
from mcp_bench.servers.saasworld import BENCHMARK
from mcp_bench.servers.saasworld.apps import apps, resources
from mcp_bench.servers.saasworld.authoring.family import load_family
from mcp_bench.servers.saasworld.engine.operation import object_schema
from mcp_bench.servers.saasworld.engine.state import Record
from mcp_bench.servers.saasworld.short_tools import MAX_CHARACTERS
from mcp_bench.servers.saasworld.tasks import build, parse
from tests.support.saas import TOOLSETS, broken, changing_steps, graded, opened, play, solved, task_id

pytestmark = pytest.mark.contract


@pytest.mark.parametrize("toolset", TOOLSETS)
def test_the_reference_solution_scores_one_without_refusals(task: str, toolset: str) -> None:
    benchmark = TOOLSETS[toolset]
    world = opened(task, benchmark)
    results = play(world, benchmark.reference(task).calls)
    assert [result.text for result in results if result.is_error] == []
    grade = graded(world)
    assert [a.name for a in grade.assertions if not a.passed] == []
    assert (grade.partial, grade.strict) == (1.0, True)


def test_doing_nothing_scores_nothing(task: str) -> None:
    grade = graded(opened(task))
    assert (grade.partial, grade.strict) == (0.0, False)
    assert [a for a in grade.assertions if a.kind == "objective" and a.passed] == []
    assert any(a.kind == "guardrail" for a in grade.assertions) and broken(grade) == []


def test_every_changing_call_of_the_reference_counts(task: str) -> None:
    calls = BENCHMARK.reference(task).calls
    steps = list(changing_steps(task))
    assert steps
    for step in steps:
        world = opened(task)
        play(world, [call for number, call in enumerate(calls) if number != step])
        assert graded(world).partial < 1.0, f"it does not matter whether {calls[step]} is made"


def test_doing_more_than_asked_breaks_a_guardrail(task: str) -> None:
    """In every collection in reach, a bystander is changed, deleted and duplicated."""
    reach = [resource.collection for name in build(parse(task)).apps for resource in apps()[name].resources]
    world = solved(task)
    state = world.state
    touched = {change.id for change in state.changes()}
    for collection in reach:
        bystanders = [row for row in state.rows(collection) if row["id"] not in touched]
        for overreach in ("update", "delete", "duplicate") if bystanders else ():
            record = bystanders[len(bystanders) // 2]
            with suppress(UndoError), state.transaction():
                if overreach == "update":
                    state.put(collection, altered(collection, record))
                elif overreach == "delete":
                    state.remove(collection, record["id"])
                else:
                    state.put(collection, {**record, "id": state.new_id("x")})
                grade = graded(world)
                assert broken(grade) == [f"nothing else changed in {collection}"], (collection, overreach)
                assert grade.partial < 1.0 and not grade.strict
                raise UndoError
    assert graded(world).strict


class UndoError(Exception):
    """Raised to roll a world back."""


def altered(collection: str, record: Record) -> Record:
    """Return a record with another value in one of its fields."""
    field = next(name for name in resources()[collection].by_name if name in record)
    return {**record, field: f"{record[field]} (changed)"}


def test_an_extra_mail_breaks_a_guardrail_or_is_out_of_reach(task: str) -> None:
    world = solved(task)
    mail = {"to": ["someone@else.example"], "subject": "FYI", "body": "All of it is done."}
    (result,) = play(world, [ToolCall(name="mail_messages_send", arguments=mail)])
    if "mail_messages_send" in {tool.name for tool in world.tools()}:
        assert not result.is_error
        assert broken(graded(world)) == ["nothing else changed in mail.messages"]
    else:
        assert result.is_error and graded(world).strict


def test_making_a_record_twice_breaks_a_guardrail(task: str) -> None:
    calls = BENCHMARK.reference(task).calls
    for step in changing_steps(task):
        world = solved(task)
        made = {change.id for change in world.state.changes()}
        (result,) = play(world, [calls[step]])
        new = [change for change in world.state.changes() if change.id not in made]
        if new:
            assert not graded(world).strict and broken(graded(world)), calls[step]
        else:
            assert result.is_error or graded(world).strict


def test_the_agent_sees_nothing_of_the_grading(task: str) -> None:
    world, built = opened(task), build(parse(task))
    results = play(world, BENCHMARK.reference(task).calls)
    shown = "\n".join(
        [
            BENCHMARK.task(task).prompt,
            *(tool.model_dump_json() for tool in world.tools()),
            *(result.text for result in results),
        ]
    ).casefold()
    family = load_family(parse(task).family)
    telling = [family.id, family.id.replace("-", "_"), family.build.__module__, family.build.__name__ + "("]
    telling += [task, "objective", "guardrail", "held_out", "saasworld", ".train.", ".test."]
    telling += [str(assertion["name"]) for assertion in built.assertions]
    telling += [f"level {number}" for number in range(1, 6)] + [f"level-{number}" for number in range(1, 6)]
    assert [word for word in telling if word.casefold() in shown] == []


def test_initial_records_are_as_their_app_declares_them(task: str) -> None:
    from jsonschema import Draft202012Validator

    built = build(parse(task))
    for collection, table in built.tables.items():
        resource = resources()[collection]
        schema = object_schema(resource.fields)
        schema["properties"]["id"] = {"type": "string"}
        validator = Draft202012Validator(schema)
        for record in table.values():
            errors = [f"{collection}: {error.message}" for error in validator.iter_errors(record)]
            assert errors == []
            for field in resource.fields:
                if field.ref and field.name in record:
                    assert record[field.name] in built.tables.get(field.ref, {}), (collection, field.name)


def test_seeds_differ_in_data_and_not_only_in_names(kind: tuple[str, int, str]) -> None:
    one, two = (build(parse(task_id(kind, number))) for number in (0, 1))
    assert one.prompt != two.prompt
    assert set(numbers(one.tables)) != set(numbers(two.tables))
    assert [len(table) for table in one.tables.values()] != []
    ids_one, ids_two = ({row["id"] for t in b.tables.values() for row in t.values()} for b in (one, two))
    assert len(ids_one & ids_two) < 0.2 * len(ids_one)


def numbers(value: Any) -> list[str]:
    """Return all numbers and dates in some JSON."""
    if isinstance(value, dict):
        return [found for item in value.values() for found in numbers(item)]
    if isinstance(value, list):
        return [found for item in value for found in numbers(item)]
    if isinstance(value, str):
        return [value] if value[:2] == "20" and value[4:5] == "-" else []
    return [] if isinstance(value, bool) or value is None else [str(value)]


def test_sizes_fit_the_level(task: str) -> None:
    level, built = parse(task).level, build(parse(task))
    tools = [tool.model_dump() for tool in opened(task).tools()]
    records = sum(len(table) for table in built.tables.values())
    if level == 1:
        assert len(tools) == 4 and len(built.steps) == 2
        canonical = json.dumps(tools, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        assert len(built.prompt) + len(canonical) <= MAX_CHARACTERS
    if level >= 2:
        assert records >= 100
    if level >= 3:
        assert len(built.apps) >= 2 and len(built.steps) >= 5
    if level == 5:
        assert len({step.operation.app for step in built.steps}) >= 5 and len(built.steps) >= 15


@pytest.mark.anyio
@pytest.mark.parametrize("toolset", TOOLSETS)
async def test_the_reference_solution_over_a_real_connection(
    kind: tuple[str, int, str], toolset: str, connect: Any
) -> None:
    from mcp_bench.servers.mcp_server.world_session import WorldSession

    task, benchmark = task_id(kind, 0), TOOLSETS[toolset]
    world = await benchmark.open(task)
    async with connect(WorldSession(world), "auto") as client:
        for call in benchmark.reference(task).calls:
            result = await client.call_tool(call.name, dict(call.arguments))
            assert not result.is_error, result.content
    assert (await world.grade("")).partial == 1.0
