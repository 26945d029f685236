from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_bench.recorder.conversations.align import align
from mcp_bench.recorder.records import RecordedCall
from mcp_bench.recorder.trajectory import FunctionCall, Message, ToolCall

pytestmark = pytest.mark.unit

PROMPT = "Pay the bill."


def recorded(tool: str, arguments: dict[str, Any] | None = None, text: str = "", **rest: Any) -> RecordedCall:
    facts: dict[str, Any] = {"outcome": "ok", "started_us": 1, "text": text or f"recorded {tool}"}
    return RecordedCall(tool=tool, arguments=arguments or {}, **{**facts, **rest})


def says(text: str | None, *calls: tuple[str, str, dict[str, Any]]) -> Message:
    tool_calls = [ToolCall(id=i, function=FunctionCall(name=n, arguments=a)) for i, n, a in calls]
    return Message(role="assistant", content=text, tool_calls=tool_calls)


def tool_result(call_id: str, text: str, *, is_error: bool = False) -> Message:
    return Message(role="tool", tool_call_id=call_id, content=text, is_error=is_error)


def shape(messages: list[Message]) -> list[object]:
    """Return each message as its text, or as the names of its calls."""
    return [[c.function.name for c in m.tool_calls] if m.tool_calls else m.content for m in messages]


def test_recorded_results_replace_those_of_the_transcript() -> None:
    transcript = [
        says("Looking.", ("t1", "read", {"n": 2})),
        tool_result("t1", "truncated..."),
        says("Done."),
    ]
    aligned = align(PROMPT, transcript, [recorded("read", {"n": 2.0}, "the whole file")])
    assert shape(aligned) == [PROMPT, ["read"], "the whole file", "Done."]
    assert (aligned[1].content, aligned[1].tool_calls[0].id, aligned[2].tool_call_id) == (
        "Looking.",
        "t1",
        "t1",
    )


def test_true_is_not_one() -> None:
    aligned = align(PROMPT, [says(None, ("t", "set", {"v": 1}))], [recorded("set", {"v": True})])
    assert [m.is_error for m in aligned if m.role == "tool"] == [True, False]


def test_equal_calls_take_their_results_in_the_order_they_ran() -> None:
    transcript = [
        says(None, ("a", "next", {})),
        tool_result("a", "?"),
        says(None, ("b", "next", {})),
        tool_result("b", "?"),
    ]
    aligned = align(PROMPT, transcript, [recorded("next", text="first"), recorded("next", text="second")])
    assert shape(aligned) == [PROMPT, ["next"], "first", ["next"], "second"]


def test_parallel_calls_stay_together() -> None:
    transcript = [
        says(None, ("a", "left", {}), ("b", "right", {})),
        tool_result("b", "?"),
        tool_result("a", "?"),
    ]
    aligned = align(PROMPT, transcript, [recorded("right"), recorded("left")])
    assert shape(aligned) == [PROMPT, ["left", "right"], "recorded left", "recorded right"]


def test_calls_missing_in_the_transcript_go_where_they_ran() -> None:
    transcript = [says("one", ("a", "known1", {})), says("two", ("b", "known2", {})), says("Done.")]
    names = ["early", "known1", "middle", "known2", "late"]
    aligned = align(PROMPT, transcript, [recorded(name) for name in names])
    assert [m.tool_calls[0].function.name for m in aligned if m.tool_calls] == names
    assert aligned[-1].content == "Done."


def test_a_missing_call_between_parallel_calls_joins_them() -> None:
    transcript = [says(None, ("a", "left", {}), ("b", "right", {}))]
    aligned = align(PROMPT, transcript, [recorded("left"), recorded("hidden"), recorded("right")])
    assert shape(aligned)[1] == ["left", "right", "hidden"]


def test_a_transcript_with_only_an_answer_ends_the_conversation() -> None:
    aligned = align(PROMPT, [says("The answer is 4.")], [recorded("read"), recorded("write")])
    assert shape(aligned) == [
        PROMPT,
        ["read"],
        "recorded read",
        ["write"],
        "recorded write",
        "The answer is 4.",
    ]


def test_calls_that_never_reached_the_wire_keep_their_result() -> None:
    transcript = [says(None, ("a", "shell", {"cmd": "ls"}), ("b", "gone", {})), tool_result("a", "file.txt")]
    aligned = align(PROMPT, transcript, [])
    assert [(m.content, m.is_error) for m in aligned if m.role == "tool"] == [("file.txt", False), ("", True)]


def test_without_a_transcript_the_calls_make_the_conversation() -> None:
    aligned = align(PROMPT, [], [recorded("a"), recorded("b", text="no", outcome="tool_error")])
    assert shape(aligned) == [PROMPT, ["a"], "recorded a", ["b"], "no"]
    assert [m.is_error for m in aligned if m.role == "tool"] == [False, True]


def test_the_prompt_is_not_repeated() -> None:
    transcript = [
        Message(role="system", content="You are."),
        Message(role="user", content=PROMPT),
        says("Hi"),
    ]
    assert shape(align(PROMPT, transcript, [])) == [PROMPT, "Hi"]


names = st.sampled_from("abc")
call_ids = st.sampled_from(["x", "y", "", "call_1"])
small = st.dictionaries(st.just("n"), st.integers(0, 1), max_size=1)
transcripts = st.lists(
    st.builds(says, st.none() | st.text(max_size=3), *[st.tuples(call_ids, names, small)] * 2)
    | st.builds(says, st.just("text"))
    | st.builds(tool_result, call_ids, st.just("tool_result")),
    max_size=5,
)
recordings = st.lists(st.tuples(names, small), max_size=6).map(
    lambda calls: [recorded(name, args, f"result {i}") for i, (name, args) in enumerate(calls)]
)


@given(transcripts, recordings)
def test_every_call_has_one_answer_and_no_recorded_call_is_lost(
    transcript: list[Message], calls: list[RecordedCall]
) -> None:
    aligned = align(PROMPT, transcript, calls)
    assert (aligned[0].role, aligned[0].content) == ("user", PROMPT)

    # every assistant message is followed by exactly its results, in order; ids are unique
    position, ids = 1, []
    while position < len(aligned):
        message = aligned[position]
        assert message.role == "assistant"
        answers = aligned[position + 1 : position + 1 + len(message.tool_calls)]
        assert [a.tool_call_id for a in answers] == [c.id for c in message.tool_calls]
        assert all(a.role == "tool" for a in answers)
        ids += [c.id for c in message.tool_calls]
        position += 1 + len(answers)
    assert len(set(ids)) == len(ids)
    assert all(ids)

    # every recorded result occurs once, under its own call
    by_id = {c.id: c.function for m in aligned for c in m.tool_calls}
    results = {
        m.content: by_id[m.tool_call_id or ""] for m in aligned if (m.content or "").startswith("result ")
    }
    assert len(results) == len(calls)
    for call in calls:
        assert (results[call.text].name, results[call.text].arguments) == (call.tool, call.arguments)

    # all texts of the transcript occur in order
    texts = [m.content for m in transcript if m.role == "assistant" and m.content]
    assert [m.content for m in aligned if m.role == "assistant" and m.content] == texts


@given(st.lists(st.tuples(names, small), max_size=8), st.sets(st.integers(0, 7)))
def test_a_transcript_with_gaps_gives_the_recorded_order(
    stories: list[tuple[str, dict[str, int]]], kept: set[int]
) -> None:
    calls = [recorded(f"{name}{i}", args) for i, (name, args) in enumerate(stories)]
    transcript = [says(None, (f"t{i}", c.tool, c.arguments)) for i, c in enumerate(calls) if i in kept]
    aligned = align(PROMPT, transcript, calls)
    assert [c.function.name for m in aligned for c in m.tool_calls] == [call.tool for call in calls]
