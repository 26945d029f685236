"""The chat agent as a process, on a real MCP server and a scripted model endpoint, in both dialects."""

import json
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.support.model_endpoint.endpoint import ModelEndpoint
from tests.support.model_endpoint.fault import Fault, Gate
from tests.support.model_endpoint.script import Script, ScriptedCall, Step, script_from_reference

pytestmark = pytest.mark.component

PROMPT = "Add two and three, then write it down."
REFERENCE = {
    "calls": [
        {"name": "add", "arguments": {"a": 2, "b": 3}},
        {"name": "note", "arguments": {"text": "five", "colour": "blue"}},
    ],
    "answer": "It is five.",
}
SOON = {"retry-after-ms": "1"}


@pytest.fixture(params=["openai", "anthropic"])
def provider(request: pytest.FixtureRequest) -> str:
    return str(request.param)


ONCE = pytest.mark.parametrize(
    "provider", ["openai", pytest.param("anthropic", marks=pytest.mark.full)], indirect=True
)
"""For behaviour that both dialects share."""


class Chat:
    """The client with its two servers."""

    def __init__(self, desk: Any, endpoint: ModelEndpoint, provider: str) -> None:
        self.desk, self.endpoint, self.provider = desk, endpoint, provider
        self.env = {f"{provider.upper()}_API_KEY": "dummy-key-1234", f"{provider.upper()}_BASE_URL": self.url}

    @property
    def url(self) -> str:
        return self.endpoint.openai_url if self.provider == "openai" else self.endpoint.anthropic_url

    def run(self, *args: str, prompt: str = PROMPT) -> Any:
        return self.desk.run("chat", "--model", "m", *args, stdin=prompt, env=self.env)

    def script(self, *steps: Step, endless: bool = False) -> None:
        self.endpoint.scripts = [Script(PROMPT, steps, endless)]


@pytest.fixture
def chat(desk: Any, provider: str) -> Iterator[Chat]:
    with ModelEndpoint([script_from_reference(PROMPT, REFERENCE)], api_key="dummy-key-1234") as endpoint:
        yield Chat(desk, endpoint, provider)


def call(name: str, arguments: dict[str, Any] | str = "") -> ScriptedCall:
    return ScriptedCall(name, arguments or {})


def test_it_solves_a_task_and_tells_all_of_it(chat: Chat) -> None:
    result = chat.run("--system", "Be brief.", "--temperature", "0.5", "--max-tokens", "99")
    assert (result.code, result.errors) == (0, [])
    assert result.journal == [(c["name"], c["arguments"]) for c in REFERENCE["calls"]]
    assert result.results == [("5", False), ("noted five", False)]
    assert result.final == {"type": "final", "answer": "It is five."}
    turns = [message for message in result.messages if message["role"] == "assistant"]
    assert [turn["reasoning"] for turn in turns] == [f"Step {n}: think first." for n in (1, 2, 3)]
    assert [turn["content"] for turn in turns] == [None, None, "It is five."]
    assert [c["function"] for turn in turns for c in turn.get("tool_calls", [])] == REFERENCE["calls"]
    body = chat.endpoint.requests[0].body
    assert (body["temperature"], body["max_tokens"], body["model"]) == (0.5, 99, "m")
    assert "Be brief." in json.dumps(body)


def test_usage_is_the_sum_of_what_the_endpoint_sent(chat: Chat) -> None:
    result = chat.run()
    sent = [request.usage for request in chat.endpoint.answered]
    assert len(sent) == 3 and sum(usage.cached for usage in sent) > 0
    last = [event["usage"] for event in result.events if event["type"] == "usage"][-1]
    assert last == {
        "input_tokens": sum(usage.input for usage in sent),
        "output_tokens": sum(usage.output for usage in sent),
        "cached_tokens": sum(usage.cached for usage in sent),
        "model_calls": 3,
    }


def test_reasoning_goes_back_as_the_api_wants_it(chat: Chat) -> None:
    chat.run()
    messages = chat.endpoint.requests[-1].body["messages"]
    turns = [message for message in messages if message["role"] == "assistant"]
    if chat.provider == "openai":
        assert [turn["reasoning_content"] for turn in turns] == [
            "Step 1: think first.",
            "Step 2: think first.",
        ]
    else:  # the endpoint itself refuses a signature that does not fit
        assert [turn["content"][0]["thinking"] for turn in turns] == [
            "Step 1: think first.",
            "Step 2: think first.",
        ]


def test_parallel_calls_overlap_and_answer_in_order(chat: Chat) -> None:
    meetings = (
        call("meet", {"name": "first"}),
        call("add", {"a": 1, "b": 1}),
        call("meet", {"name": "second"}),
    )
    chat.script(Step(meetings), Step(text="met"))
    result = chat.run()
    assert result.results == [("first met second", False), ("2", False), ("second met first", False)]
    assert result.final["answer"] == "met"


def test_model_gets_an_error_for_an_impossible_call(chat: Chat) -> None:
    wrong = (
        call("subtract", {"a": 1}),
        call("add", '{"a": 1, '),
        call("add", "[1, 2]"),
        call("add", '{"a": NaN, "b": 1}'),
        call("add", '{"a": 1e999, "b": 1}'),
    )
    chat.script(Step(wrong), Step((call("desk_tidy"),)), Step(text="recovered"))
    result = chat.run()
    assert (result.code, result.final["answer"]) == (0, "recovered")
    assert [is_error for _, is_error in result.results] == [True, True, True, True, True, False]
    assert "There is no tool 'subtract'" in result.results[0][0]
    if chat.provider == "openai":  # there the arguments are text
        assert "not valid JSON" in result.results[1][0] and '{"a": 1, ' in result.results[1][0]
        assert "must be a JSON object" in result.results[2][0]
        assert "NaN is no JSON" in result.results[3][0]
        assert "1e999 is too large" in result.results[4][0]
        sent_back = chat.endpoint.requests[-1].body["messages"][1]["tool_calls"]
        assert [json.loads(c["function"]["arguments"]) for c in sent_back] == [{"a": 1}, {}, {}, {}, {}]
    assert result.journal == [("desk.tidy", {})]
    called_names = [c["function"]["name"] for m in result.messages for c in m.get("tool_calls", [])]
    assert called_names == ["subtract", "add", "add", "add", "add", "desk.tidy"], "the server's own names"


@ONCE
def test_text_that_cannot_be_written_is_mended(chat: Chat) -> None:
    chat.script(Step((call("note", {"text": "half \ud83d"}),), text="so \udc00"), Step(text="ok"))
    result = chat.run()
    assert (result.code, result.final["answer"]) == (0, "ok")
    assert result.journal == [("note", {"text": "half ?", "colour": "red"})]


@ONCE
def test_the_step_limit_ends_it_in_good_order(chat: Chat) -> None:
    chat.script(Step((call("add", {"a": 1, "b": 1}),), text="going on"), endless=True)
    result = chat.run("--max-steps", "3")
    assert (result.code, len(result.journal), len(chat.endpoint.requests)) == (0, 3, 3)
    assert result.final == {"type": "final", "answer": "going on", "stopped": "max_steps"}


@ONCE
@pytest.mark.parametrize(
    "fault",
    [
        Fault(status=429, headers=SOON, first=2),
        Fault(status=500, headers=SOON, first=2),
        Fault(cut=0, first=1),
    ],
    ids=["429", "500", "cut"],
)
def test_passing_faults_are_survived(chat: Chat, fault: Fault) -> None:
    chat.endpoint.fault = fault
    result = chat.run()
    assert (result.code, result.final["answer"]) == (0, "It is five.")
    last = [event["usage"] for event in result.events if event["type"] == "usage"][-1]
    assert last["model_calls"] == 3, "attempts that failed are no model calls"


@ONCE
def test_an_endpoint_that_stays_broken_is_an_endpoint_error(chat: Chat) -> None:
    chat.endpoint.fault = Fault(status=500, headers=SOON, message="Out of order.")
    result = chat.run("--max-retries", "2")
    assert (result.code, len(chat.endpoint.requests)) == (1, 3)
    ((kind, detail),) = result.errors
    assert kind == "endpoint" and "500" in detail and "Out of order." in detail
    assert "Traceback" not in result.stderr


def test_a_refused_key_is_not_tried_again_and_never_shown(chat: Chat) -> None:
    chat.endpoint.fault = Fault(status=401, message="Wrong key: dummy-key-1234")
    result = chat.run()
    assert (result.code, len(chat.endpoint.requests)) == (1, 1)
    ((kind, detail),) = result.errors
    assert kind == "login" and "401" in detail
    assert "dummy-key-1234" not in result.stderr + json.dumps(result.events)


@pytest.mark.parametrize(
    "text",
    [
        "",
        '{"choices": [], "content": null}',
        '{"choices": [{"index": 0, "finish_reason": "stop", "message": null}]}',
        '{"choices": [{"index": 0, "finish_reason": "error", "message": {"role": "assistant", "content": "I"},'
        ' "error": {"message": "Upstream failed."}}]}',
        '{"choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "tool_calls": [1]}}],'
        ' "content": [{"type": "text", "text": null}]}',
        *(pytest.param(text, marks=pytest.mark.full) for text in ("<html>hello</html>", "{}")),
    ],
)
def test_an_answer_that_is_none_is_an_endpoint_error(chat: Chat, text: str) -> None:
    chat.endpoint.fault = Fault(text=text)
    result = chat.run("--max-retries", "0")
    assert result.code == 1
    assert [kind for kind, _ in result.errors] == ["endpoint"]
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("provider", ["openai"], indirect=True)
def test_arguments_can_come_as_an_object(chat: Chat) -> None:
    """Some servers send them so; they go back as the text that the API names."""
    function = {"name": "add", "arguments": {"a": 2, "b": 3}}
    message = {"role": "assistant", "content": None, "tool_calls": [{"id": "1", "function": function}]}
    odd = {"id": "1", "choices": [{"index": 0, "finish_reason": "tool_calls", "message": message}]}
    chat.endpoint.fault = Fault(text=json.dumps(odd), first=1)
    result = chat.run()
    assert (result.code, result.final["answer"]) == (0, "It is five.")
    assert result.messages[0]["tool_calls"][0]["function"] == function
    [sent] = chat.endpoint.requests[-1].body["messages"][1]["tool_calls"]
    assert json.loads(sent["function"]["arguments"]) == function["arguments"]
    assert "PydanticSerialization" not in result.stderr


@pytest.mark.parametrize("provider", ["anthropic"], indirect=True)
def test_a_number_too_large_for_python_does_no_harm(chat: Chat) -> None:
    block = '{"type": "tool_use", "id": "1", "name": "add", "input": {"a": 1e999, "b": 1}}'
    about = '"id": "1", "type": "message", "role": "assistant", "model": "m", "stop_reason": "tool_use"'
    chat.endpoint.fault = Fault(text=f'{{{about}, "content": [{block}]}}', first=1)
    result = chat.run()
    assert (result.code, result.errors, result.results[0][1]) == (0, [], True)


@pytest.mark.parametrize("provider", ["openai"], indirect=True)
def test_the_error_of_a_gateway_is_named(chat: Chat) -> None:
    """OpenRouter sends it with status 200 if it comes from the model's provider."""
    chat.endpoint.fault = Fault(text='{"error": {"code": 502, "message": "The provider is overloaded."}}')
    result = chat.run("--max-retries", "0")
    assert result.errors == [("endpoint", "the model endpoint answered 502: The provider is overloaded.")]


@pytest.mark.parametrize("provider", ["openai"], indirect=True)
@pytest.mark.parametrize("name", ["reasoning_details", "thinking_blocks"])
def test_signed_reasoning_goes_back_unchanged(chat: Chat, name: str) -> None:
    parts = [{"type": "reasoning.encrypted", "data": "c2VhbGVk", "id": "1"}]
    calls = [{"id": "1", "type": "function", "function": {"name": "add", "arguments": '{"a": 2, "b": 3}'}}]
    message = {"role": "assistant", "content": None, "tool_calls": calls, name: parts}
    odd = {"id": "1", "choices": [{"index": 0, "finish_reason": "tool_calls", "message": message}]}
    chat.endpoint.fault = Fault(text=json.dumps(odd), first=1)
    assert chat.run().code == 0
    assert chat.endpoint.requests[-1].body["messages"][1][name] == parts


@pytest.mark.parametrize("provider", ["openai"], indirect=True)
@pytest.mark.parametrize("refused", [None, "I cannot."])
def test_an_empty_turn_goes_back_as_text(chat: Chat, refused: str | None, tmp_path: Path) -> None:
    """The API refuses a turn with neither content nor calls, which a user can answer."""
    message = {"role": "assistant", "content": None, "refusal": refused}
    odd = {"id": "1", "choices": [{"index": 0, "finish_reason": "stop", "message": message}]}
    chat.endpoint.fault = Fault(text=json.dumps(odd), first=1)
    kept = f"--session={tmp_path / 'session.json'}"
    assert chat.run(kept).final["answer"] == (refused or "")
    chat.run(kept, prompt="Go on.")
    turns = chat.endpoint.requests[1].body["messages"]
    assert turns[1] == {"role": "assistant", "content": refused or ""}


@pytest.mark.parametrize("flags", [(), ("--one-action",)])
def test_a_conversation_goes_on(chat: Chat, flags: tuple[str, ...], tmp_path: Path) -> None:
    chat.endpoint.scripts = [script_from_reference(PROMPT, REFERENCE, obedient=True)]
    kept = (f"--session={tmp_path / 'session.json'}", *flags)
    texts = (PROMPT, "Now three and four.", "Thank you.")
    results = [chat.run(*kept, prompt=text) for text in texts]
    assert [(result.code, result.final["answer"]) for result in results] == [(0, "It is five.")] * 3
    messages = chat.endpoint.requests[-1].body["messages"]
    said = json.dumps([message for message in messages if message["role"] == "user"])
    assert [said.count(text) for text in texts] == [1, 1, 1]
    if chat.provider == "anthropic":  # there the user sends the results, too
        assert all(one["role"] != after["role"] for one, after in pairwise(messages))


@pytest.mark.parametrize("provider", ["anthropic"], indirect=True)
@pytest.mark.parametrize(
    "answered", [[], [{"role": "assistant", "content": [{"type": "text", "text": "Five."}]}]]
)
def test_an_empty_message_is_left_out(chat: Chat, answered: list[Any], tmp_path: Path) -> None:
    """Earlier versions stored one after each turn; the model itself can answer with nothing."""
    usage = {"input_tokens": 1, "output_tokens": 1, "cached_tokens": 0, "model_calls": 1}
    messages = [{"role": "user", "content": PROMPT}, *answered, {"role": "user", "content": []}]
    session = tmp_path / "session.json"
    session.write_text(json.dumps({"messages": messages, "usage": usage}))
    result = chat.run(f"--session={session}", prompt="Go on.")
    assert (result.code, result.final["answer"]) == (0, "It is five.")
    sent = chat.endpoint.requests[0].body["messages"]
    assert [message["role"] for message in sent] == (["user", "assistant", "user"] if answered else ["user"])
    assert json.dumps(sent).count("Go on.") == 1


NO_NUMBERS = {"prompt_tokens": "10", "completion_tokens": "5", "input_tokens": "10", "output_tokens": "5"}


@pytest.mark.parametrize("usage", [{}, {"usage": None}, {"usage": {}}, {"usage": [1]}, {"usage": NO_NUMBERS}])
def test_an_answer_without_usage_is_one(chat: Chat, usage: dict[str, Any]) -> None:
    blocks = [{"type": "text", "text": "Five."}]
    message = {"role": "assistant", "content": "Five."}
    odd = {
        "openai": {"choices": [{"index": 0, "finish_reason": "stop", "message": message}]},
        "anthropic": {"type": "message", "role": "assistant", "content": blocks, "stop_reason": "end_turn"},
    }[chat.provider]
    chat.endpoint.fault = Fault(text=json.dumps({"id": "1", "model": "m", **odd, **usage}))
    result = chat.run()
    assert (result.code, result.final["answer"]) == (0, "Five.")
    [usage] = [event["usage"] for event in result.events if event["type"] == "usage"]
    assert usage == {"input_tokens": None, "output_tokens": None, "cached_tokens": None, "model_calls": 1}


def test_a_conversation_that_grows_too_long_ends_cleanly(chat: Chat) -> None:
    message = {
        "openai": "This model's maximum context length is 8192 tokens.",
        "anthropic": "prompt is too long: 210000 tokens > 200000 maximum",
    }[chat.provider]
    code = "context_length_exceeded" if chat.provider == "openai" else None
    chat.endpoint.fault = Fault(status=400, message=message, code=code, after=1)
    result = chat.run()
    assert (result.code, len(result.journal)) == (0, 1)
    ((kind, detail),) = result.errors
    assert kind == "context" and message in detail
    assert result.final == {"type": "final", "answer": "", "stopped": "context"}


def test_another_bad_request_is_the_endpoints_error(chat: Chat) -> None:
    chat.endpoint.fault = Fault(status=400, message="Unknown model m.")
    result = chat.run()
    assert result.code == 1
    assert [kind for kind, _ in result.errors] == ["endpoint"]


@ONCE
def test_what_it_did_is_told_even_if_it_is_killed(chat: Chat) -> None:
    gate = Gate()
    chat.endpoint.fault = Fault(gate=gate, after=1)
    process = chat.desk.start("chat", "--model", "m", env=chat.env)
    assert process.stdin
    process.stdin.write(PROMPT)
    process.stdin.close()
    process.stdin = None
    assert gate.arrived.wait(60)
    process.kill()
    result = chat.desk.finish(process)
    assert [m["role"] for m in result.messages] == ["assistant", "tool"]
    assert [event["usage"]["model_calls"] for event in result.events if event["type"] == "usage"] == [1]


@ONCE
def test_a_server_that_dies_is_an_mcp_error(chat: Chat) -> None:
    chat.script(Step((call("leave"),)), Step(text="never"))
    result = chat.run()
    assert result.code == 1
    assert [kind for kind, _ in result.errors] == ["mcp"]


@pytest.mark.parametrize("provider", ["openai"], indirect=True)
def test_a_message_in_parts_is_read(chat: Chat) -> None:
    """Mistral's reasoning models answer so."""
    parts = [
        {"type": "thinking", "thinking": [{"type": "text", "text": "Easy."}]},
        {"type": "text", "text": "It is "},
        {"type": "text", "text": "five."},
    ]
    message = {"role": "assistant", "content": parts}
    answer = {
        "id": "1", "object": "chat.completion", "created": 0, "model": "m",
        "choices": [{"index": 0, "finish_reason": "stop", "message": message}],
    }  # fmt: skip
    chat.endpoint.fault = Fault(text=json.dumps(answer))
    result = chat.run()
    assert (result.code, result.final) == (0, {"type": "final", "answer": "It is five."})
    assert result.messages == [{"role": "assistant", "content": "It is five.", "reasoning": "Easy."}]
