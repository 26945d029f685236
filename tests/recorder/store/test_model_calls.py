"""Captured model calls: which turn each became, and their usage."""

import json
from collections.abc import Callable, Sequence
from typing import Any

import anyio
import pytest
from click.testing import Result
from hypothesis import given
from hypothesis import strategies as st

from mcp_bench.recorder.cli.show import show
from mcp_bench.recorder.conversations.load import trajectory
from mcp_bench.recorder.conversations.model_turns import join_model_calls, match_turns
from mcp_bench.recorder.formats.trl import Trl
from mcp_bench.recorder.model_api.dialects.dialect import Reply, RequestedCall
from mcp_bench.recorder.runs.reader import RunReader
from mcp_bench.recorder.runs.run_folder import RunFolder
from mcp_bench.recorder.store.model_calls import (
    ModelRequest,
    StoredModelCall,
    preferred_usage,
    total_usage,
)
from mcp_bench.recorder.store.model_calls import begin as begin_call
from mcp_bench.recorder.store.model_tokens import without_tokens
from mcp_bench.recorder.trajectory import FunctionCall, Message, ToolCall, Usage
from tests.support.exchanges import completion, exchange
from tests.support.recorded import Episode, begin, planned, play, record, run_info

pytestmark = pytest.mark.system

Invoke = Callable[..., Result]
TOOLS = [{"type": "function", "function": {"name": "mcp__bench__transfer"}}]


def said(text: str = "", *calls: tuple[str | None, str, dict[str, Any] | None], reasoning: str = "") -> Reply:
    return Reply("m", text, reasoning, tuple(RequestedCall(*call) for call in calls), None, "stop")


def turn(text: str | None = None, *calls: tuple[str, str, dict[str, Any]]) -> Message:
    asked = [ToolCall(id=i, function=FunctionCall(name=name, arguments=values)) for i, name, values in calls]
    return Message(role="assistant", content=text, tool_calls=asked)


USER = Message(role="user", content="Done.")


def test_calls_match_by_id_or_by_tool_and_arguments() -> None:
    messages = [
        USER,
        turn(None, ("call_1", "transfer", {"amount": 10})),
        Message(role="tool", tool_call_id="call_1", content="ok"),
        turn("Now this.", ("call_2", "desk.tidy", {})),
        turn("Done."),
    ]
    replies = [
        said("", (None, "mcp__bench__transfer", {"amount": 10.0})),
        said("whatever", ("call_2", "desk_tidy_0abc123", None)),
        said("Done.\n"),
    ]
    assert match_turns(messages, replies) == [1, 3, 4]


def test_replies_that_the_agent_ignored_are_not_turns() -> None:
    messages = [USER, turn(None, ("a", "add", {"n": 1})), turn(None, ("b", "add", {"n": 1})), turn("Done.")]
    once_more = said("", (None, "add", {"n": 1}))
    assert match_turns(messages, [said("A title"), once_more, once_more, once_more, said("Done.")]) == [
        None, 1, 2, None, 3,
    ]  # fmt: skip
    assert match_turns(messages, [said("", (None, "add", {"n": 2})), said("")]) == [None, None]
    assert match_turns([USER], [said("Done.")]) == [None]  # a user message is not an answer


arguments = st.dictionaries(st.sampled_from("ab"), st.integers(0, 2), max_size=2)
steps = st.lists(st.tuples(st.booleans(), st.sampled_from(["add", "note"]), arguments), max_size=6)


@given(steps=steps, side=st.lists(st.booleans(), min_size=7, max_size=7))
def test_turns_are_found_among_other_calls(steps: list[Any], side: list[bool]) -> None:
    messages, replies, wanted = [USER], [], []
    for number, (with_id, tool, values) in enumerate(steps):
        if side[number]:
            replies.append(said(f"a title {number}"))
            wanted.append(None)
        call_id = f"call_{number}"
        replies.append(said("", (call_id if with_id else None, f"mcp__{tool}", values)))
        wanted.append(len(messages))
        messages.append(turn(None, (call_id, tool, values)))
        messages.append(Message(role="tool", tool_call_id=call_id, content="ok"))
    assert match_turns(messages, replies) == wanted


def stored(usage: Usage | None, outcome: str = "ok", kind: str = "turn") -> StoredModelCall:
    return StoredModelCall(
        id="mc", episode="ep", started_us=0, first_us=0, ended_us=0, kind=kind, outcome=outcome,
        dialect="responses", model="m", parameters={}, usage=usage, finish="stop", message=None,
        method="POST", path="/", status=200, request_headers={}, response_headers={},
    )  # fmt: skip


def test_usage_is_the_sum_of_all_answers_or_none() -> None:
    one = Usage(input_tokens=10, output_tokens=2, cached_tokens=4, model_calls=1)
    two = Usage(input_tokens=1, output_tokens=1, model_calls=1)
    total = total_usage(
        [stored(one), stored(two, kind="side"), stored(one, outcome="cut"), stored(None, kind="other")]
    )
    assert total == Usage(input_tokens=11, output_tokens=3, cached_tokens=4, model_calls=2)
    assert total_usage([stored(one), stored(None)]) is None
    assert total_usage([]) is None
    reported = Usage(input_tokens=99, output_tokens=9, cost_usd=0.5)
    assert preferred_usage(total, reported) == Usage(
        input_tokens=11, output_tokens=3, cached_tokens=4, model_calls=2, cost_usd=0.5
    )
    assert preferred_usage(None, reported) == reported
    assert preferred_usage(total, None) == total


CALL = {"id": "call_9", "function": {"name": "mcp__bench__transfer", "arguments": '{"amount": 12.5}'}}
LOGPROBS = {"content": [{"token": "x", "logprob": -0.25}]}


@pytest.fixture
def captured() -> tuple[RunFolder, str, Sequence[str]]:
    """An episode with a failed request, a title, two turns and a count of tokens."""
    with RunFolder.create(run_info()) as folder:
        slot = planned()
        sampled = {"temperature": 0.5, "max_tokens": 50, "tools": TOOLS}
        begun = begin(folder, slot)
        exchange(folder, begun, sampled, b"{}", status=429)
        titled = {"role": "assistant", "content": "A title"}
        exchange(folder, begun, {"temperature": 0.0}, completion(titled))
        asked = {"role": "assistant", "content": None, "reasoning_content": "I must.", "tool_calls": [CALL]}
        first = exchange(folder, begun, sampled, completion(asked, token_ids=[7], logprobs=LOGPROBS))
        done = {"role": "assistant", "content": "I sent the money."}
        last = exchange(folder, begun, {**sampled, "seed": 3}, completion(done))
        exchange(folder, begun, {}, b'{"input_tokens": 5}', path="/v1/messages/count_tokens")
        messages = [
            Message(role="user", content=slot.prompt),
            turn(None, ("call_1", "transfer", {"amount": 12.5})),
            Message(role="tool", tool_call_id="call_1", content="done"),
            turn("I sent the money."),
        ]
        joined = join_model_calls(folder.recording, begun, messages)
        assert [message.reasoning for message in joined] == [None, "I must.", None, None]
        assert messages[1].reasoning is None  # the input is not changed
        folder.recording.end_episode(begun, ended(), joined)
        return folder, begun, (first, last)


def test_an_answer_of_any_form_lets_the_episode_end() -> None:
    nested = '{"a":' + "[" * 700 + "]" * 700 + "}"
    call = {"id": 5, "function": {"name": ["x"], "arguments": nested}}
    thought = {"type": "thinking", "thinking": [{"type": "text", "text": "I must."}]}
    parts = [thought, {"type": "text", "text": "Done."}]
    with RunFolder.create(run_info()) as folder:
        begun = begin(folder, planned())
        for message in ({"content": 5}, {"content": None, "tool_calls": [call]}, {"content": parts}):
            exchange(folder, begun, {"tools": TOOLS}, completion(message))
        joined = join_model_calls(folder.recording, begun, [USER, turn("Done.")])
        assert [message.reasoning for message in joined] == [None, "I must."]
        folder.recording.end_episode(begun, ended(), joined)


def ended() -> Any:
    from mcp_bench.recorder.records import EpisodeEnd

    usage = Usage(input_tokens=1, output_tokens=1, cost_usd=0.25)
    return EpisodeEnd(termination="agent_exit", usage=usage, ended_us=3_000_000)


def test_a_trajectory_has_sampling_parameters_per_turn(captured: Any) -> None:
    folder, episode, (first, last) = captured
    with RunReader(folder.path) as reader:
        story = trajectory(reader, reader.episode(episode), model_calls=True)
        plain = trajectory(reader, reader.episode(episode))
    assert [(call.id, call.message) for call in story.model_calls] == [(first, 1), (last, 3)]
    one, two = story.model_calls
    assert (one.parameters, two.parameters) == (
        {"temperature": 0.5, "max_tokens": 50},
        {"temperature": 0.5, "max_tokens": 50, "seed": 3},
    )
    assert (one.prompt_token_ids, one.token_ids, one.logprobs) == ([1, 2], [7], [-0.25])
    assert (two.token_ids, two.logprobs, two.model, two.finish) == (None, None, "m-1", "stop")
    assert story.messages[1].reasoning == "I must."
    # of three answers, the title included; the cost is the agent's, and nothing is counted twice
    assert story.usage == Usage(input_tokens=300, output_tokens=60, model_calls=3, cost_usd=0.25)
    assert plain.model_calls == []
    assert "model_calls" not in Trl().row(story)


def test_show_summarises_captured_calls(captured: Any, invoke: Invoke) -> None:
    _, episode, (first, last) = captured
    output = invoke(show, episode).output
    assert (
        "captured   5 model calls (2 turns, 1 on the side, 1 other), 1 failed, input_tokens 300,"
        " output_tokens 60, temperature 0.5, max_tokens 50, temperature 0.5, max_tokens 50, seed 3"
    ) in output
    document = json.loads(invoke(show, episode, "--json").stdout)
    assert document["captured"]["usage"] == {"input_tokens": 300, "output_tokens": 60, "model_calls": 3}
    assert document["usage"] == {
        "input_tokens": 1,
        "output_tokens": 1,
        "cost_usd": 0.25,
    }  # as the agent reported
    lines = invoke(show, episode, "--model-calls").output.splitlines()
    assert [line.split()[0] for line in lines if first in line or last in line] == [first, last]
    assert len(lines) == 6
    assert "error 429" in lines[1]
    assert "on the side" in lines[2]
    assert "message 1" in lines[3]
    assert "POST /v1/messages/count_tokens" in lines[5]
    rows = json.loads(invoke(show, episode, "--model-calls", "--json").stdout)
    assert rows[2]["request"]["temperature"] == 0.5
    assert without_tokens(json.loads(rows[2]["response"])) == rows[2]["answer"]
    assert [row["message"] for row in rows] == [None, None, 1, 3, None]


def test_show_without_a_capture(invoke: Invoke) -> None:
    folder, (episode,) = record([(planned(), Episode())])
    assert "captured" not in invoke(show, episode).output
    assert json.loads(invoke(show, episode, "--json").stdout)["captured"] is None
    assert "record --capture-llm" in invoke(show, episode, "--model-calls").output
    assert json.loads(invoke(show, episode, "--model-calls", "--json").stdout) == []
    for words in (["--model-calls"], [folder.id, "--model-calls"]):
        result = invoke(show, *words)
        assert result.exit_code == 2
        assert "goes with an episode" in result.output


def test_a_request_whose_referee_died_has_no_response(invoke: Invoke) -> None:
    with RunFolder.create(run_info()) as folder:
        episode = play(folder, folder.info.plan[0], Episode())
        request = ModelRequest("mc_1", episode, 1, "POST", "/v1/responses", {}, b"{}\x00\xff")
        anyio.run(begin_call, folder.recording.writer, request)
        going_on = invoke(show, episode, "--model-calls").output
        assert ("in progress" in going_on, "its referee died" in going_on) == (True, False)
    assert "its referee died" in invoke(show, episode, "--model-calls").output
    (row,) = json.loads(invoke(show, episode, "--model-calls", "--json").stdout)
    assert (row["outcome"], row["response"]) == (None, None)
    with RunReader(folder.path) as reader:
        assert reader.model_bodies("mc_1")[0] == b"{}\x00\xff"
