"""The client that calls tools at random, as a process on a real server."""

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from mcp_bench.clients.random_walk import Draw, definitions

pytestmark = pytest.mark.component

PROMPT = "Write down the number of the invoice INV-1."


def test_the_same_seed_makes_the_same_calls(desk: Any) -> None:
    def result(seed: int) -> Any:
        return desk.run("random_walk", "--calls=3", f"--seed={seed}", stdin=PROMPT)

    first = result(3)
    calls = [m["tool_calls"][0]["function"] for m in first.messages if m["role"] == "assistant"]
    assert [call["name"] for call in calls] == [name for name, _ in first.journal[: len(calls)]]
    assert len(calls) >= 2
    assert result(3).messages == first.messages
    assert result(4).messages != first.messages


BOUNDS = st.sampled_from(
    [
        {"minimum": 0, "maximum": 0},
        {"minimum": 200},
        {"maximum": -3},
        {"minimum": 0.2, "exclusiveMaximum": 0.8},
        {"exclusiveMinimum": 4, "exclusiveMaximum": 6},
        {"exclusiveMinimum": -0.5, "maximum": 1e9},
    ]
)
LEAVES = st.sampled_from(
    [{"type": kind} for kind in ("string", "integer", "number", "boolean", "null")]
    + [True, {"enum": ["a", 1]}, {"const": "only"}, {"type": ["integer", "null"]}, {"$ref": "#/$defs/tree"}]
) | BOUNDS.map(lambda bounds: {"type": "number", **bounds})
SCHEMAS = st.recursive(
    LEAVES,
    lambda inner: (
        st.builds(
            lambda items, size: {"type": "array", "items": items, "minItems": size, "maxItems": size},
            inner, st.integers(0, 2),
        )
        | st.lists(inner, min_size=1, max_size=2).map(lambda one: {"anyOf": one, "description": "either"})
        | st.dictionaries(st.sampled_from("abcd"), inner, max_size=3).map(
            lambda properties: {
                "type": "object", "properties": properties, "required": sorted(properties)[:1],
                "additionalProperties": False,
            }
        )
    ),
    max_leaves=6,
)  # fmt: skip
TREE = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "branches": {"type": "array", "items": {"$ref": "#/$defs/tree"}},
    },
    "required": ["name", "branches"],
}


@given(properties=st.dictionaries(st.sampled_from("abcd"), SCHEMAS, max_size=4), seed=st.integers())
def test_arguments_fit_the_schema(properties: dict[str, Any], seed: int) -> None:
    schema = {
        "type": "object",
        "properties": properties,
        "required": sorted(properties)[1:],
        "$defs": {"tree": TREE},
    }
    drawn = Draw(["seen"], random.Random(seed), definitions(schema)).properties(schema)
    Draft202012Validator(schema).validate(drawn)
