"""Arguments are accepted exactly if their schema accepts them, and refusals give the reason."""

import difflib
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from mcp_bench.servers.contracts import ToolSpec
from mcp_bench.servers.mcp_server.arguments import (
    MAX_PROBLEMS,
    MAX_SHOWN,
    MAX_VALUES,
    ArgumentValidator,
)

pytestmark = pytest.mark.unit

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "to": {"type": "array", "items": {"type": "string"}, "minItems": 1},
        "count": {"type": "integer", "minimum": 0},
        "note": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None},
        "cc": {"anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "null"}]},
        "mode": {"enum": ["r", "rw"]},
        "place": {"type": "object", "properties": {"x": {"type": "number"}}, "required": ["x"]},
    },
    "required": ["to", "count"],
    "additionalProperties": False,
}
VALIDATOR = ArgumentValidator(ToolSpec(name="send", description="", input_schema=SCHEMA))

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
good = st.fixed_dictionaries(
    {"to": st.lists(st.text(), min_size=1, max_size=3), "count": st.integers(min_value=0)},
    optional={
        "note": st.none() | st.text(),
        "cc": st.none() | st.lists(st.text(), max_size=2),
        "mode": st.sampled_from(["r", "rw"]),
        "place": st.fixed_dictionaries({"x": st.floats(allow_nan=False, allow_infinity=False)}),
    },
)
anything = st.dictionaries(st.sampled_from([*SCHEMA["properties"], "other", ""]), json_values)


@given(good)
def test_valid_arguments_are_accepted(arguments: dict[str, Any]) -> None:
    assert VALIDATOR.problems(arguments) == []


@given(anything)
def test_accepts_exactly_what_the_schema_accepts(arguments: dict[str, Any]) -> None:
    problems = VALIDATOR.problems(arguments)
    assert (problems == []) == Draft202012Validator(SCHEMA).is_valid(arguments)
    assert all(problems)
    assert len(problems) <= MAX_PROBLEMS + 1


@given(good, st.sampled_from(["to", "count"]))
def test_a_missing_argument_is_named(arguments: dict[str, Any], name: str) -> None:
    del arguments[name]
    assert VALIDATOR.problems(arguments) == [f"missing argument {name!r}"]


@given(good, st.text(max_size=MAX_SHOWN).filter(lambda name: name not in SCHEMA["properties"]))
def test_an_unknown_argument_is_named(arguments: dict[str, Any], name: str) -> None:
    (problem,) = VALIDATOR.problems({**arguments, name: 1})
    assert problem.startswith(f"unknown argument {name!r}")


@given(good, st.text() | st.lists(st.integers()) | st.none() | st.booleans())
def test_wrong_type_is_reported_with_its_place(arguments: dict[str, Any], wrong: Any) -> None:
    (problem,) = VALIDATOR.problems({**arguments, "count": wrong})
    assert problem.startswith("argument 'count' must be integer, not ")


@given(good, st.sampled_from([math.nan, math.inf, -math.inf]))
def test_non_finite_numbers_are_refused(arguments: dict[str, Any], number: float) -> None:
    assert VALIDATOR.problems({**arguments, "place": {"x": number}}) == [
        "argument 'place.x' must be a finite number"
    ]


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"to": ["a", 3]}, "argument 'to[1]' must be string, not integer 3"),
        ({"to": []}, "argument 'to': [] should be non-empty"),
        ({"note": 5}, "argument 'note' must be string or null, not integer 5"),
        ({"cc": "a"}, "argument 'cc' must be array or null, not string 'a'"),
        ({"cc": ["a", 1]}, "argument 'cc[1]' must be string, not integer 1"),
        ({"mode": "w"}, "argument 'mode' must be one of 'r', 'rw', not string 'w'"),
        ({"place": {}}, "missing argument 'x' in argument 'place'"),
        ({"contu": 1}, "unknown argument 'contu' (did you mean 'count'?)"),
        ({"count": "9" * 500}, f"argument 'count' must be integer, not string '{'9' * 79}..."),
    ],
)
def test_wording(arguments: dict[str, Any], problem: str) -> None:
    assert VALIDATOR.problems({"to": ["a"], "count": 1, **arguments}) == [problem]


def test_many_problems_are_cut_short() -> None:
    problems = VALIDATOR.problems({"to": ["a"], "count": 1, **{f"x{n}": 1 for n in range(40)}})
    assert len(problems) == MAX_PROBLEMS + 1
    assert problems[-1] == f"and {40 - MAX_PROBLEMS} more problems"


@pytest.mark.parametrize(
    ("arguments", "more"),
    [
        ({f"counter{n}": 1 for n in range(10_000)}, f"and {10_000 - MAX_PROBLEMS} more problems"),
        ({"places": [{"x": 1, f"xx{n}": 1} for n in range(10_000)]}, "and at least "),
        ({"to": [0] * 10_000}, "and at least "),
        ({"place": {"x": [math.nan] * 10_000}}, "and at least "),
    ],
)
def test_many_problems_cost_little(
    arguments: dict[str, Any], more: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Similar names are searched for a few unknown ones, not for each."""
    place: dict[str, Any] = {**SCHEMA["properties"]["place"], "additionalProperties": False}
    properties = {**SCHEMA["properties"], "places": {"type": "array", "items": place}, "place": {}}
    validator = ArgumentValidator(
        ToolSpec(name="many", description="", input_schema={**SCHEMA, "properties": properties})
    )
    searched: list[str] = []
    search = difflib.get_close_matches

    def counted(word: str, *more: Any, **named: Any) -> list[str]:
        searched.append(word)
        return search(word, *more, **named)

    monkeypatch.setattr(difflib, "get_close_matches", counted)
    problems = validator.problems({"to": ["a"], "count": 1, **arguments})
    assert len(problems) == MAX_PROBLEMS + 1 and problems[-1].startswith(more)
    assert len(searched) <= 100


@pytest.mark.parametrize(
    "arguments",
    [
        {"to": ["a"] * MAX_VALUES},
        {"place": {"x": 1, "rest": [[1] * 1000] * (MAX_VALUES // 1000)}},
        {f"x{n}": 1 for n in range(MAX_VALUES)},
    ],
)
def test_too_many_values_are_refused_unread(arguments: dict[str, Any]) -> None:
    problems = VALIDATOR.problems({"to": ["a"], "count": 1, **arguments})
    assert problems == ["it has more than 50,000 values"]


def test_as_many_values_as_there_may_be_are_accepted() -> None:
    assert not VALIDATOR.problems({"to": ["a"], "count": 1, "place": {"x": 1, "r": [1] * (MAX_VALUES - 6)}})


@pytest.mark.parametrize(
    "arguments", [{"n" * 100_000: 1}, {"place": {"x": 1, "n" * 100_000: math.nan}}, {"count": "n" * 100_000}]
)
def test_long_names_are_cut(arguments: dict[str, Any]) -> None:
    (problem,) = VALIDATOR.problems({"to": ["a"], "count": 1, **arguments})
    assert "nnn..." in problem and len(problem) < 4 * MAX_SHOWN


def test_remote_references_are_not_fetched() -> None:
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {"a": {"$ref": "http://127.0.0.1:9/schema.json"}},
    }
    validator = ArgumentValidator(ToolSpec(name="odd", description="", input_schema=schema))
    with pytest.raises(Exception, match="Unresolvable"):
        validator.problems({"a": 1})
