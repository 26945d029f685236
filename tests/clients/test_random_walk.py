"""The client that calls tools at random, as a process on a real server."""

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from mcp_bench.clients.random_walk import drawn_object

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


LEAVES = st.sampled_from(
    [{"type": kind} for kind in ("string", "integer", "number", "boolean", "null")]
    + [True, {"enum": ["a", 1]}, {"type": ["integer", "null"]}]
)
SCHEMAS = st.recursive(
    LEAVES,
    lambda inner: (
        st.builds(lambda items: {"type": "array", "items": items}, inner)
        | st.dictionaries(st.sampled_from("abcd"), inner, max_size=3).map(
            lambda properties: {
                "type": "object", "properties": properties, "required": sorted(properties)[:1],
                "additionalProperties": False,
            }
        )
    ),
    max_leaves=6,
)  # fmt: skip


@given(properties=st.dictionaries(st.sampled_from("abcd"), SCHEMAS, max_size=4), seed=st.integers())
def test_arguments_fit_the_schema(properties: dict[str, Any], seed: int) -> None:
    schema = {"type": "object", "properties": properties, "required": sorted(properties)[1:]}
    Draft202012Validator(schema).validate(drawn_object(schema, ["seen"], random.Random(seed)))
