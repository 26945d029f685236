"""The engine speaks three model APIs: one request in each, whole and streamed, and the turn that follows it.

The requests of Codex and Claude Code are shortened ones that their real programs sent (`requests/`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from mcp_bench.recorder.model_api.dialects import dialect_of
from mcp_bench.recorder.model_api.dialects.dialect import Reply
from mcp_bench.recorder.model_api.dialects.sse import json_events
from mcp_bench.trainer.engine.api.chat_request import ChatRequest
from mcp_bench.trainer.engine.api.messages_request import read_messages
from mcp_bench.trainer.engine.api.responses_request import read_responses
from mcp_bench.trainer.engine.app import Policy, make_app
from mcp_bench.trainer.engine.load import Loaded, load
from mcp_bench.trainer.engine.sampling import Sampling
from tests.support.training.scripted_engine import LOGPROB, ScriptedEngine, calls_then_text, scripted
from tests.support.training.tiny_checkpoints import make_tokenizer, qwen3, save, template

pytestmark = pytest.mark.component

REQUESTS = Path(__file__).with_name("requests")
PATHS = {
    "chat": "/v1/chat/completions",
    "codex": "/v1/responses",
    "claude-code": "/v1/messages",
}
CALL = {"name": "hiring_candidates_reject", "arguments": {"id": 'ä\n"quoted"'}}
TWO_CALLS = "\n".join(
    f'<tool_call>\n{{"name": "{CALL["name"]}", "arguments": {{"id": "{id_}"}}}}\n</tool_call>' for id_ in "ab"
)


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Loaded:
    tokenizer = make_tokenizer(template("qwen3"))
    folder = save(qwen3(len(tokenizer)), tokenizer, tmp_path_factory.mktemp("apis") / "model")
    return load(folder, calls="hermes", device="cpu")


@pytest.fixture(scope="module")
def served(checkpoint: Loaded) -> Iterator[tuple[TestClient, ScriptedEngine]]:
    loaded, engine = scripted(checkpoint, calls_then_text([CALL], "Done."))
    with TestClient(make_app(loaded, "policy", policy=Policy(lambda: "7"))) as client:
        yield client, engine


@pytest.fixture(scope="module")
def itself(checkpoint: Loaded) -> Iterator[TestClient]:
    """Answers of the model, which nobody has scripted."""
    with TestClient(make_app(checkpoint, "policy", policy=Policy(lambda: "7"))) as client:
        yield client


def request(agent: str) -> dict[str, Any]:
    made: dict[str, Any] = json.loads((REQUESTS / f"{agent}.json").read_text(encoding="utf-8"))
    return {**made, "model": "policy"} | (
        {"stream_options": {"include_usage": True}} if agent == "chat" else {}
    )


def ask(client: TestClient, agent: str, body: Mapping[str, Any], *, stream: bool) -> dict[str, Any]:
    """Return the answer as one document."""
    path = f"/ep_1{PATHS[agent]}"
    made = client.post(path, json={**body, "stream": stream})
    assert made.status_code == 200, made.text
    dialect = dialect_of(path)
    assert dialect is not None
    document: dict[str, Any] = dialect.join_events(list(json_events(made.text))) if stream else made.json()
    return document


def reply(agent: str, document: dict[str, Any]) -> Reply:
    dialect = dialect_of(PATHS[agent])
    assert dialect is not None
    return dialect.read_reply(document)


def with_result(agent: str, body: dict[str, Any], document: dict[str, Any]) -> dict[str, Any]:
    """Return the request that an agent makes after it has run the call of an answer."""
    if agent == "chat":
        message = document["choices"][0]["message"]
        result = {"role": "tool", "tool_call_id": message["tool_calls"][0]["id"], "content": "ok"}
        return {**body, "messages": [*body["messages"], message, result]}
    if agent == "codex":
        call = document["output"][-1]["call_id"]
        result = {"type": "function_call_output", "call_id": call, "output": "ok"}
        return {**body, "input": [*body["input"], *document["output"], result]}
    call = document["content"][-1]["id"]
    result = {"type": "tool_result", "tool_use_id": call, "content": [{"type": "text", "text": "ok"}]}
    said = {"role": "assistant", "content": document["content"]}
    return {**body, "messages": [*body["messages"], said, {"role": "user", "content": [result]}]}


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("agent", PATHS)
def test_a_conversation_goes_on_with_its_tokens(
    served: tuple[TestClient, ScriptedEngine], agent: str, stream: bool
) -> None:
    client, engine = served
    body = request(agent)
    first = ask(client, agent, body, stream=stream)
    said = reply(agent, first)
    [call] = said.calls
    assert call.name.endswith(CALL["name"]) and call.arguments == CALL["arguments"]
    assert said.text == f"I call {CALL['name']}." and said.tokens.version == "7"
    prompt, answer = engine.answered[-1]
    assert (said.tokens.prompt_ids, said.tokens.ids) == (prompt, list(answer))
    assert said.tokens.logprobs == [LOGPROB] * len(answer)
    assert said.usage is not None and said.usage.output_tokens == len(answer)

    second = reply(agent, ask(client, agent, with_result(agent, body, first), stream=stream))
    assert second.text == "Done." and not second.calls
    later = engine.answered[-1][0]
    assert later[: len(prompt) + len(answer)] == [*prompt, *answer]


def test_errors_are_in_the_form_of_the_api(served: tuple[TestClient, ScriptedEngine]) -> None:
    client, _ = served
    wrong = {"model": "policy", "messages": [{"role": "user"}]}
    made = client.post("/v1/messages", json=wrong)
    assert made.status_code == 400 and made.json()["type"] == "error"
    stored = client.post("/v1/responses", json={"model": "policy", "input": "x", "previous_response_id": "r"})
    assert stored.status_code == 400 and "send all items" in stored.json()["error"]["message"]
    image = [{"role": "user", "content": [{"type": "image", "source": {}}]}]
    refused = client.post("/v1/messages", json={"model": "policy", "messages": image, "max_tokens": 5})
    assert refused.status_code == 400 and "text only, not image" in refused.json()["error"]["message"]
    assert client.post("/v1/messages", content=b"{").status_code == 400
    other = client.post("/v1/responses", json={"model": "other", "input": "x"})
    assert other.status_code == 404


def test_a_tool_in_a_namespace_and_one_for_text_are_called_by_their_own_names(
    served: tuple[TestClient, ScriptedEngine],
) -> None:
    client, _ = served
    inner = {"type": "function", "name": CALL["name"], "parameters": {"type": "object"}}
    tools = [{"type": "namespace", "name": "mcp__world", "tools": [inner]}, {"type": "web_search"}]
    made = ask(client, "codex", {"model": "policy", "input": "Go.", "tools": tools}, stream=False)
    call = made["output"][-1]
    assert (call["name"], call["namespace"]) == (CALL["name"], "mcp__world")
    text = {"type": "custom", "name": CALL["name"], "description": "Takes text."}
    made = ask(client, "codex", {"model": "policy", "input": "Go.", "tools": [text]}, stream=True)
    assert made["output"][-1]["type"] == "custom_tool_call"


ASKED: dict[str, Any] = {
    "model": "policy",
    "messages": [{"role": "user", "content": "Go."}],
    "max_tokens": 40,
    "temperature": 0,
}


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("agent", PATHS)
def test_a_call_that_no_answer_can_carry_is_text(checkpoint: Loaded, agent: str, stream: bool) -> None:
    written = r'<tool_call>{"name": "hiring_candidates_reject", "arguments": {"id": "\ud83d"}}</tool_call>'
    loaded, _ = scripted(checkpoint, lambda prompt: written)
    with TestClient(make_app(loaded, "policy", policy=Policy(lambda: "7"))) as client:
        said = reply(agent, ask(client, agent, request(agent), stream=stream))
    assert (said.text, said.calls) == (written, ())


@pytest.mark.parametrize("read", [read_messages, read_responses])
def test_settings_of_the_chat_api_are_read_in_each(read: Callable[[bytes], ChatRequest]) -> None:
    settings: dict[str, Any] = {"top_k": 5, "min_p": 0.25, "repetition_penalty": 1.5, "seed": 3}
    asked = read(json.dumps({**ASKED, "input": "Go.", "return_token_ids": True, **settings}).encode())
    assert asked.sampling(Sampling()) == replace(Sampling(temperature=0), **settings)
    assert asked.return_token_ids


def test_strict_tools_are_so_in_the_messages_api() -> None:
    tools = [{"name": "f", "input_schema": {"type": "object"}, "strict": True}]
    assert read_messages(json.dumps({**ASKED, "tools": tools}).encode()).strict


WRONG, ODD = (
    {
        "type": "function",
        "function": {"name": "f", "parameters": {"properties": {"a": {}}, "required": wrong}},
    }
    for wrong in (True, [["a"]])
)


@pytest.mark.parametrize(
    ("path", "more", "said"),
    [
        ("/v1/messages", {"output_config": {"format": {"type": "json_schema"}}}, "text and tool calls only"),
        ("/v1/messages", {"output_config": "high"}, "output_config"),
        ("/v1/responses", {"text": {"format": {"type": "json_schema"}}}, "text and tool calls only"),
        ("/v1/responses", {"text": "short"}, "`text` is incomplete"),
        ("/v1/responses", {"top_logprobs": 3}, "in /v1/chat/completions only"),
        ("/v1/chat/completions", {"top_logprobs": 3}, "top_logprobs: it needs logprobs: true"),
        ("/v1/responses", {"conversation": "conv_1"}, "conversation: this server stores nothing"),
        ("/v1/responses", {"prompt": {"id": "pmpt_1"}}, "prompt: this server stores nothing"),
        ("/v1/responses", {"input": [{"role": "system", "content": ["x"]}]}, "text only, not str"),
        ("/v1/messages", {"system": [{"type": "text", "text": 5}]}, "text only, not int"),
        (
            "/v1/messages",
            {"tools": [{"name": "f", "input_schema": {}}], "tool_choice": "any"},
            "tool_choice: ",
        ),
        (
            "/v1/messages",
            {"tools": [{"name": "f", "input_schema": {}}], "tool_choice": {"type": "required"}},
            "'required' is none of auto, any, none, tool",
        ),
        (
            "/v1/chat/completions",
            {"tools": [WRONG], "tool_choice": "required"},
            "`required` in a tool's schema",
        ),
        (
            "/v1/chat/completions",
            {"tools": [ODD], "tool_choice": "required"},
            "`required` in a tool's schema",
        ),
        *(
            (path, {"chat_template_kwargs": {name: value}}, f"chat_template_kwargs: {name} is no variable")
            for path in ("/v1/chat/completions", "/v1/messages")
            for name, value in (("chat_template", "{# #}"), ("return_tensors", "pt"), ("truncation", True))
        ),
    ],
)
def test_what_the_engine_has_not_is_refused(
    served: tuple[TestClient, ScriptedEngine], path: str, more: dict[str, Any], said: str
) -> None:
    client, _ = served
    made = client.post(path, json={**ASKED, "input": "Go.", **more})
    assert made.status_code == 400 and said in made.json()["error"]["message"]


@pytest.mark.parametrize("agent", PATHS)
def test_messages_that_are_no_prompt_are_refused(checkpoint: Loaded, agent: str) -> None:
    """An engine would fail, and with it all answers that it is decoding."""
    loaded, _ = scripted(replace(checkpoint, tokenizer=make_tokenizer("{# tools #}")), lambda prompt: "")
    with TestClient(make_app(loaded, "policy")) as client:
        made = client.post(PATHS[agent], json=request(agent))
    assert made.status_code == 400 and "makes an empty prompt" in made.json()["error"]["message"]


@pytest.mark.parametrize("agent", PATHS)
def test_a_stream_of_an_engine_that_fails_breaks_off(
    checkpoint: Loaded, agent: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A response that ends well would be an answer to the referee, whatever its events say."""
    loaded, engine = scripted(checkpoint, lambda prompt: "")
    failed = RuntimeError("out of memory")
    monkeypatch.setattr(engine, "submit", lambda request: request.done.set_exception(failed))
    asked = {**request(agent), "stream": True}
    with (
        TestClient(make_app(loaded, "policy", policy=Policy(lambda: "7"))) as client,
        pytest.raises(RuntimeError, match="out of memory"),
    ):
        client.post(PATHS[agent], json=asked)


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("agent", PATHS)
def test_an_empty_answer_is_a_turn(checkpoint: Loaded, agent: str, stream: bool) -> None:
    """Where the history of the agent lacks it, the next request would be a conversation of its own."""
    loaded, _ = scripted(checkpoint, lambda prompt: "")
    with TestClient(make_app(loaded, "policy", policy=Policy(lambda: "7"))) as client:
        found = ask(client, agent, request(agent), stream=stream)
    if agent == "codex":
        [item] = found["output"]
        assert (item["type"], item["content"][0]["text"]) == ("message", "")
    assert reply(agent, found).text in (None, "")


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("agent", PATHS)
def test_all_calls_of_a_policy_are_there(checkpoint: Loaded, agent: str, stream: bool) -> None:
    """Also of an agent that wants one at a time: what was sampled is learned from."""
    loaded, _ = scripted(checkpoint, lambda prompt: TWO_CALLS)
    refused: dict[str, Any] = {"parallel_tool_calls": False}
    if agent == "claude-code":
        refused = {"tool_choice": {"type": "auto", "disable_parallel_tool_use": True}}
    with TestClient(make_app(loaded, "policy", policy=Policy(lambda: "7"))) as client:
        found = ask(client, agent, {**request(agent), **refused}, stream=stream)
    assert len(reply(agent, found).calls) == 2


@pytest.mark.parametrize(("refused", "calls"), [(True, 1), (False, 2)])
def test_one_call_at_a_time_can_be_asked_for(checkpoint: Loaded, refused: bool, calls: int) -> None:
    loaded, _ = scripted(checkpoint, lambda prompt: TWO_CALLS)
    with TestClient(make_app(loaded, "policy")) as client:
        asked = {**request("chat"), "parallel_tool_calls": not refused, "stream": False}
        made = client.post(PATHS["chat"], json=asked).json()
    assert len(made["choices"][0]["message"]["tool_calls"]) == calls


@pytest.mark.parametrize("agent", ["chat", "codex"])
def test_a_named_tool_is_called_once(itself: TestClient, agent: str) -> None:
    schema = {"type": "object", "properties": {"button": {"enum": ["red"]}}, "required": ["button"]}
    tool, limit = {"name": "press", "parameters": schema}, 120
    if agent == "chat":
        asked = {"messages": ASKED["messages"], "tools": [{"type": "function", "function": tool}]}
        asked |= {"tool_choice": {"type": "function", "function": {"name": "press"}}, "max_tokens": limit}
    else:
        asked = {"input": "Go.", "tools": [{"type": "function", **tool}], "max_output_tokens": limit}
        asked |= {"tool_choice": {"type": "function", "name": "press"}}
    said = reply(agent, ask(itself, agent, {"model": "policy", "temperature": 0, **asked}, stream=False))
    assert [(call.name, call.arguments) for call in said.calls] == [("press", {"button": "red"})]


def test_all_thoughts_of_an_answer_are_kept() -> None:
    thoughts = [{"type": "reasoning", "summary": [{"type": "summary_text", "text": one}]} for one in "ab"]
    said = {"role": "assistant", "content": "c"}
    asked = read_responses(json.dumps({"model": "m", "input": [*thoughts, said]}).encode())
    [answer] = asked.messages
    assert (answer.content, answer.model_extra) == ("c", {"reasoning_content": "ab"})


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize(("agent", "key"), [
    ("chat", "max_tokens"), ("codex", "max_output_tokens"), ("claude-code", "max_tokens"),
])  # fmt: skip
def test_an_answer_at_its_limit_is_cut_in_each_api(
    itself: TestClient, agent: str, key: str, stream: bool
) -> None:
    """The trainer asks this of every answer: what was cut is not learned from."""
    asked = {"model": "policy", key: 1}
    asked |= {"input": "Go."} if agent == "codex" else {"messages": ASKED["messages"]}
    said = reply(agent, ask(itself, agent, asked, stream=stream))
    assert said.cut and said.tokens.ids is not None and len(said.tokens.ids) == 1


def test_a_stop_sequence_is_named(itself: TestClient) -> None:
    asked = {**ASKED, "temperature": 1, "seed": 1}
    text = reply("claude-code", ask(itself, "claude-code", asked, stream=False)).text
    stop = next(letter for letter in text[1:] if letter.isascii() and letter != text[0])
    for stream in (False, True):
        body = {**asked, "stop_sequences": ["never", stop]}
        made = ask(itself, "claude-code", body, stream=stream)
        assert (made["stop_reason"], made["stop_sequence"]) == ("stop_sequence", stop)
        assert reply("claude-code", made).text == text[: text.index(stop)]
    cut = ask(itself, "claude-code", {**asked, "max_tokens": 1}, stream=False)
    assert (cut["stop_reason"], cut["stop_sequence"]) == ("max_tokens", None)


def test_tokens_of_half_a_character_have_their_bytes(checkpoint: Loaded) -> None:
    loaded, _ = scripted(checkpoint, lambda prompt: "ä\ufffd€")
    with TestClient(make_app(loaded, "policy", policy=Policy(lambda: "7"))) as client:
        made = ask(client, "chat", {**ASKED, "logprobs": True}, stream=False)
    tokens = made["choices"][0]["logprobs"]["content"]
    assert bytes(byte for token in tokens for byte in token["bytes"]) == "ä\ufffd€<|im_end|>".encode()
