"""Hypothesis strategies for trajectories of every kind that a recording can contain."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from mcp_bench.recorder.trajectory import (
    FunctionCall,
    FunctionSchema,
    Message,
    ToolCall,
    ToolSchema,
    Trajectory,
    Usage,
)

# any text that UTF-8 can encode, except <think>: some formats use it to mark reasoning
text = st.text(st.characters(exclude_categories=["Cs"]), max_size=30).filter(
    lambda drawn: "think>" not in drawn
)
some_text = text.filter(bool)
json_value = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=5,
)
results = text | st.just('{"type": "resource_link", "uri": "file:///bild.png", "name": "Bild"}')


@st.composite
def turns(draw: st.DrawFn, first: int) -> list[Message]:
    """Draw an agent's turn with one or more tool calls, and their results."""
    names = draw(st.lists(some_text, min_size=1, max_size=3))
    calls = [
        ToolCall(
            id=f"call_{first}_{number}",
            function=FunctionCall(name=name, arguments=draw(st.dictionaries(text, json_value, max_size=3))),
        )
        for number, name in enumerate(names)
    ]
    turn = Message(
        role="assistant",
        content=draw(st.none() | some_text),
        reasoning=draw(st.none() | some_text),
        tool_calls=calls,
    )
    answers = [
        Message(
            role="tool",
            content=draw(results),
            tool_call_id=call.id,
            name=call.function.name,
            is_error=draw(st.booleans()),
        )
        for call in calls
    ]
    return [turn, *answers]


@st.composite
def trajectories(draw: st.DrawFn) -> Trajectory:
    messages = [Message(role="system", content=draw(some_text))] if draw(st.booleans()) else []
    messages.append(Message(role="user", content=draw(some_text)))
    for number in range(draw(st.integers(0, 3))):
        messages += draw(turns(number))
    if draw(st.booleans()) or len(messages) < 3:
        reasoning = draw(st.none() | some_text)
        messages.append(Message(role="assistant", content=draw(some_text), reasoning=reasoning))
    partial = draw(st.none() | st.floats(0, 1, allow_subnormal=False))
    facts: dict[str, Any] = {
        "benchmark": draw(some_text),
        "task": draw(some_text),
        "split": "train",
        "domain": "d",
        "agent": draw(some_text),
        "model": draw(st.none() | some_text),
        "seed": draw(st.integers(0, 2**40)),
        "isolation": "none",
        "partial": partial,
        "strict": None if partial is None else partial == 1,
        "usage": draw(st.none() | st.just(Usage(input_tokens=3, output_tokens=1))),
    }
    tools = [
        ToolSchema(
            function=FunctionSchema(name=name, description="d", parameters={"type": "object", "x": {}})
        )
        for name in draw(st.lists(some_text, max_size=2, unique=True))
    ]
    return Trajectory(id="ep_000000000000000", messages=messages, tools=tools, **facts)
