"""Streams of every model API are joined into the answer that the API gives without streaming.

The scripted endpoint, which real agents understand, makes the streams.
"""

import gzip
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcp_bench.recorder.model_api.dialects import DIALECTS, dialect_of
from mcp_bench.recorder.model_api.dialects.dialect import Reply
from mcp_bench.recorder.model_api.exchange import Exchange, read_exchange, reply_of
from mcp_bench.recorder.trajectory import Usage
from tests.support.model_endpoint import dialects as scripted
from tests.support.model_endpoint.script import Call, TokenUsage, Turn

pytestmark = pytest.mark.unit

SCRIPTED = {dialect.name: dialect for dialect in scripted.DIALECTS}
PARSED = {dialect.name: dialect for dialect in DIALECTS}
PATHS = {
    "chat-completions": "/v1/chat/completions",
    "anthropic-messages": "/v1/messages?beta=true",
    "responses": "/v1/responses",
    "gemini": "/v1beta/models/scripted-1:streamGenerateContent?alt=sse",
}
SSE = {"content-type": "text/event-stream; charset=utf-8"}
JSON = {"content-type": "application/json"}

texts = st.text(st.characters(codec="utf-8"), max_size=30)
arguments = st.dictionaries(texts, st.integers() | texts | st.booleans() | st.none(), max_size=3)
calls = st.lists(st.tuples(st.sampled_from(["mcp__bench__add", "note"]), arguments), max_size=3)
tokens = st.integers(0, 10_000)


@st.composite
def turns(draw: st.DrawFn) -> Turn:
    requested = draw(calls)
    cached, reasoning = draw(tokens), draw(tokens)
    return Turn(
        id="0001",
        model="scripted-1",
        text=draw(texts),
        reasoning=draw(texts),
        calls=tuple(Call(f"call_{n}", name, given) for n, (name, given) in enumerate(requested)),
        usage=TokenUsage(cached + draw(tokens), reasoning + draw(tokens), cached, reasoning),
    )


def stream(name: str, turn: Turn) -> bytes:
    return b"".join(event.encode() for event in SCRIPTED[name].events(turn))


def read(name: str, body: bytes, headers: dict[str, str], **rest: Any) -> Exchange:
    facts: dict[str, Any] = {"request": b"{}", "status": 200, "ending": "complete", **rest}
    return read_exchange(PATHS[name], response=body, headers=headers, **facts)


def said(name: str, exchange: Exchange) -> Reply:
    assert exchange.answer is not None
    return PARSED[name].read_reply(exchange.answer)


@pytest.mark.parametrize("name", PARSED)
@given(turn=turns())
@settings(max_examples=60, deadline=None)
def test_a_stream_equals_the_complete_answer(name: str, turn: Turn) -> None:
    streamed = read(name, stream(name, turn), SSE)
    whole = read(name, json.dumps(SCRIPTED[name].answer(turn)).encode(), JSON)
    for exchange in (streamed, whole):
        reply = said(name, exchange)
        assert (exchange.outcome, exchange.dialect, exchange.model) == ("ok", name, "scripted-1")
        assert (reply.text, reply.reasoning) == (turn.text, turn.reasoning)
        assert [(call.name, call.arguments) for call in reply.calls] == [
            (call.name, call.arguments) for call in turn.calls
        ]
        usage = turn.usage
        assert exchange.usage == Usage(
            input_tokens=usage.input, output_tokens=usage.output, cached_tokens=usage.cached, model_calls=1
        )
    if name in ("anthropic-messages", "responses"):  # the others' streams lack a few empty keys
        assert streamed.answer == whole.answer


@pytest.mark.parametrize("name", PARSED)
@given(turn=turns(), share=st.floats(0, 0.99))
@settings(max_examples=60, deadline=None)
def test_a_cut_stream_is_incomplete_and_keeps_its_content(name: str, turn: Turn, share: float) -> None:
    whole = stream(name, turn)
    last = {
        "chat-completions": b'"finish_reason": "',
        "gemini": b'"finishReason"',
        "responses": b"event: response.completed",
    }
    end = whole.index(last.get(name, b"event: message_delta"))
    cut = read(name, whole[: int(end * share)], SSE, ending="cut")
    assert cut.outcome == "cut"
    silent = read(name, whole[: int(end * share)], SSE)  # the endpoint closes the connection normally
    assert silent.outcome in ("cut", "ok")
    assert silent.finish is None
    if cut.answer is not None:
        assert len(said(name, cut).calls) <= len(turn.calls)


@pytest.mark.parametrize("name", PARSED)
@given(body=st.binary(max_size=200), request=st.binary(max_size=50), sse=st.booleans())
@settings(max_examples=60, deadline=None)
def test_no_response_raises(name: str, body: bytes, request: bytes, sse: bool) -> None:
    read(name, b"data: " + body + b"\n\n" if sse else body, SSE if sse else JSON, request=request)


KEYS = st.sampled_from(
    [
        "type", "choices", "delta", "message", "content", "tool_calls", "function", "index", "usage", "output",
        "item", "response", "candidates", "parts", "text", "content_block", "error", "id", "logprobs", "tools",
    ]
)  # fmt: skip
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)


@pytest.mark.parametrize("name", PARSED)
@given(events=st.lists(st.dictionaries(KEYS, json_values, max_size=4), max_size=4))
@settings(max_examples=100, deadline=None)
def test_no_json_raises(name: str, events: list[dict[str, Any]]) -> None:
    body = "".join(f"data: {json.dumps(event)}\n\n" for event in events).encode()
    read(name, body, SSE, request=json.dumps(events[:1] and events[0]).encode())
    read(name, json.dumps(events).encode(), JSON)


def test_an_error_in_a_stream_is_an_error() -> None:
    failed = b'event: error\ndata: {"type": "error", "error": {"type": "overloaded_error"}}\n\n'
    assert read("anthropic-messages", failed, SSE).outcome == "error"
    assert read("chat-completions", b'data: {"error": {"message": "no"}}\n\n', SSE).outcome == "error"
    assert read("responses", b"{}", JSON, status=429).outcome == "error"


def test_known_content_codings_are_decoded() -> None:
    body = json.dumps({"choices": [{"message": {"content": "hi"}, "finish_reason": "stop"}]}).encode()
    coded = read("chat-completions", gzip.compress(body), {**JSON, "content-encoding": "gzip"})
    assert said("chat-completions", coded).text == "hi"
    cut = read(
        "chat-completions", gzip.compress(body)[:30], {**JSON, "content-encoding": "gzip"}, ending="cut"
    )
    assert (cut.outcome, cut.answer) == ("cut", None)
    unknown = read("chat-completions", body, {**JSON, "content-encoding": "br"})
    assert (unknown.outcome, unknown.answer) == ("ok", None)


def test_a_gemini_stream_that_is_an_array() -> None:
    pieces = [
        {"candidates": [{"content": {"parts": [{"text": part}]}, **end}]}
        for part, end in (("Hel", {}), ("lo", {"finishReason": "STOP"}))
    ]
    exchange = read("gemini", json.dumps(pieces).encode(), JSON)
    assert (said("gemini", exchange).text, exchange.finish) == ("Hello", "STOP")


def test_parameters_have_common_names() -> None:
    wanted = {"temperature": 0.5, "top_p": 0.9, "max_tokens": 100}

    def parameters(name: str, **body: Any) -> dict[str, Any]:
        request = json.dumps({"model": "m", "temperature": 0.5, "top_p": 0.9, **body}).encode()
        return read(name, b"{}", JSON, request=request).parameters

    assert parameters("chat-completions", max_completion_tokens=100, seed=7) == {**wanted, "seed": 7}
    assert parameters("chat-completions", max_tokens=100, temperature=None) == {
        "top_p": 0.9,
        "max_tokens": 100,
    }
    assert parameters("responses", max_output_tokens=100, reasoning={"effort": "low"}) == {
        **wanted, "reasoning": {"effort": "low"},
    }  # fmt: skip
    assert parameters("anthropic-messages", max_tokens=100) == wanted
    config = {"temperature": 0.5, "topP": 0.9, "maxOutputTokens": 100}
    assert parameters("gemini", generationConfig=config) == wanted


def test_kinds_of_requests() -> None:
    """Requests with tools are turns, those without are side requests, all others request no completion."""
    tools = json.dumps({"tools": [{"type": "function"}]}).encode()
    assert read("responses", b"{}", JSON, request=tools).kind == "turn"
    assert read("responses", b"{}", JSON).kind == "side"
    assert dialect_of("/v1/messages/count_tokens") is None
    assert read_exchange("/v1/models?x=/responses", b"", 200, b"{}", "complete", JSON).kind == "other"


def test_token_ids_and_logprobs_of_vllm_streams() -> None:
    """A stream with `logprobs`, `return_token_ids` and usage, in the form of vLLM's documentation."""
    head = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "own"}

    def chunk(delta: dict[str, Any], ids: list[int] | None = None, **rest: Any) -> dict[str, Any]:
        entries = [
            {"token": str(n), "logprob": -n / 10, "bytes": None, "top_logprobs": []} for n in ids or ()
        ]
        choice = {"index": 0, "delta": delta, "finish_reason": rest.pop("finish", None), "token_ids": ids}
        return {**head, "choices": [{**choice, "logprobs": {"content": entries} if ids else None}], **rest}

    events = [
        chunk({"role": "assistant", "content": ""}, prompt_token_ids=[1, 2, 3]),
        chunk({"reasoning_content": "hm"}, [10]),
        chunk({"content": "Hel"}, [11, 12]),
        chunk({"content": "lo"}, [13], finish="stop"),
        {**head, "choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 4}},
    ]
    body = "".join(f"data: {json.dumps(event)}\n\n" for event in events) + "data: [DONE]\n\n"
    exchange = read("chat-completions", body.encode(), SSE)
    reply = said("chat-completions", exchange)
    assert (reply.text, reply.reasoning, exchange.finish) == ("Hello", "hm", "stop")
    assert reply.tokens.prompt_ids == [1, 2, 3]
    assert reply.tokens.ids == [10, 11, 12, 13]
    assert reply.tokens.logprobs == [-1.0, -1.1, -1.2, -1.3]
    assert exchange.usage == Usage(input_tokens=3, output_tokens=4, model_calls=1)
    assert exchange.answer is not None and exchange.answer["object"] == "chat.completion"


def thinking(*texts: str) -> dict[str, Any]:
    return {"type": "thinking", "thinking": [{"type": "text", "text": text} for text in texts]}


def test_a_content_in_parts_has_reasoning_and_text() -> None:
    """Mistral's form: https://docs.mistral.ai/capabilities/reasoning."""

    def read_content(content: object) -> tuple[str, str]:
        body = json.dumps({"choices": [{"message": {"content": content}, "finish_reason": "stop"}]})
        reply = said("chat-completions", read("chat-completions", body.encode(), JSON))
        return reply.reasoning, reply.text

    answer = {"type": "text", "text": "42"}
    assert read_content([thinking("6 x", " 7"), answer]) == ("6 x 7", "42")
    assert read_content([{"type": "thinking", "thinking": "6 x 7"}, answer]) == ("6 x 7", "42")
    assert read_content([{"type": "image_url"}, 5, None, {"type": "text", "text": 5}]) == ("", "")
    assert read_content(5) == ("", "")


@pytest.mark.parametrize(
    "contents",
    [
        ["", [thinking("6 x")], [thinking(" 7")], "4", "2"],
        [[thinking("6 x 7")], [{"type": "text", "text": "4"}], "2"],
        ["4", [thinking("6 x 7"), {"type": "text", "text": "2"}]],
    ],
)
def test_parts_and_texts_of_a_stream_are_joined(contents: list[Any]) -> None:
    events = [{"choices": [{"delta": {"content": content}}]} for content in contents]
    body = "".join(f"data: {json.dumps(event)}\n\n" for event in events)
    reply = said("chat-completions", read("chat-completions", body.encode(), SSE))
    assert (reply.reasoning, reply.text) == ("6 x 7", "42")


def test_empty_fields_of_later_chunks_change_nothing() -> None:
    """DashScope, GLM and DeepSeek continue a call with an empty id and name."""

    def chunk(call_id: str, kind: str, name: str, given: str) -> dict[str, Any]:
        function = {"name": name, "arguments": given}
        call = {"index": 0, "id": call_id, "type": kind, "function": function}
        return {"choices": [{"delta": {"role": "" if name == "" else "assistant", "tool_calls": [call]}}]}

    events = [chunk("call_1", "function", "add", ""), chunk("", "", "", '{"a": '), chunk("", "", "", "1}")]
    body = "".join(f"data: {json.dumps(event)}\n\n" for event in events)
    answer = read("chat-completions", body.encode(), SSE).answer
    assert answer is not None
    function = {"name": "add", "arguments": '{"a": 1}'}
    assert answer["choices"][0]["message"] == {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"type": "function", "function": function, "id": "call_1"}],
    }


def test_an_index_that_no_answer_has_fills_no_memory() -> None:
    event = {"choices": [{"delta": {"tool_calls": [{"index": 10**15, "function": {"name": "add"}}]}}]}
    assert read("chat-completions", f"data: {json.dumps(event)}\n\n".encode(), SSE).answer is None


@pytest.mark.parametrize("usage", [{}, [], {"prompt_tokens": "many"}, {"promptTokenCount": [1]}])
@pytest.mark.parametrize("name", PARSED)
def test_an_odd_usage_leaves_the_reply(name: str, usage: object) -> None:
    turn = Turn("0001", "scripted-1", "Hi", "", (), TokenUsage(1, 1, 0, 0))
    answer = {**SCRIPTED[name].answer(turn)}
    answer["usageMetadata" if name == "gemini" else "usage"] = usage
    exchange = read(name, json.dumps(answer).encode(), JSON)
    assert (exchange.usage, exchange.finish is None, said(name, exchange).text) == (None, False, "Hi")


ODD_REPLIES = {
    "chat-completions": [
        {"choices": [{"message": {"content": 5, "refusal": 5, "reasoning": 5}}]},
        {"choices": [{"message": {"tool_calls": [{"id": [], "function": {"name": {}}}]}}]},
    ],
    "anthropic-messages": [
        {"content": [{"type": "text", "text": ["a"]}]},
        {"content": [{"type": "tool_use", "id": [], "name": "x"}]},
    ],
    "responses": [
        {"output": [{"type": "message", "content": [{"text": {"a": 1}}]}]},
        {"output": [{"type": "function_call", "call_id": {}, "name": 5}]},
    ],
    "gemini": [
        {"candidates": [{"content": {"parts": [{"text": 5, "thought": True}]}}]},
        {"candidates": [{"content": {"parts": [{"functionCall": {"id": "1", "name": ["x"]}}]}}]},
    ],
}


@pytest.mark.parametrize("name", PARSED)
def test_a_reply_has_texts_or_is_none(name: str) -> None:
    """Who matches replies with turns relies on their types."""
    for answer in ODD_REPLIES[name]:
        reply = reply_of(PARSED[name], answer)
        texts = [] if reply is None else [reply.text, reply.reasoning, *(call.name for call in reply.calls)]
        ids = [] if reply is None else [call.id for call in reply.calls]
        assert all(isinstance(text, str) for text in texts)
        assert all(isinstance(call_id, str | None) for call_id in ids)


def test_token_ids_in_place_of_tokens() -> None:
    entries = [{"token": f"token_id:{n}", "logprob": -0.5} for n in (5, 6)]
    choice = {"message": {"content": "ab"}, "finish_reason": "stop", "logprobs": {"content": entries}}
    exchange = read("chat-completions", json.dumps({"choices": [choice]}).encode(), JSON)
    assert said("chat-completions", exchange).tokens.ids == [5, 6]
