import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_bench.recorder.frames.jsonrpc import id_text, loads, message, parse, response_result, response_text

pytestmark = pytest.mark.unit

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
rpc_like = st.dictionaries(
    st.sampled_from(["jsonrpc", "id", "method", "params", "result", "error"]),
    json_values
    | st.sampled_from(["tools/call", "notifications/cancelled"])
    | st.dictionaries(st.sampled_from(["name", "arguments", "requestId", "isError", "content"]), json_values),
)


@given(
    st.binary() | st.one_of(json_values, rpc_like, st.lists(rpc_like)).map(lambda v: json.dumps(v).encode())
)
def test_any_bytes_have_a_kind_and_storable_text(body: bytes) -> None:
    frame = parse(body)
    assert frame.kind in {"request", "response", "notification", "batch", "invalid"}
    for part in (frame, *frame.items):
        for text in (part.method, part.rpc_id, part.tool, part.arguments, part.cancels):
            if text is not None:
                text.encode("utf-8")
        if part.arguments is not None:
            json.loads(part.arguments, parse_constant=pytest.fail)
        if part.kind == "response":
            response_text(body, part.rpc_id or "null").encode("utf-8")


numbers = st.sampled_from(
    [
        "1",
        "-0",
        "-0.0",
        "1.0",
        "1.50",
        "1E2",
        "1e-7",
        "1e999",
        "9" * 19,
        "9" * 25,
        "-" + "9" * 20,
        "0.1" + "0" * 20,
    ]
)
spelled = st.recursive(
    numbers | st.sampled_from(["true", "null", '"a"', "NaN", "Infinity", r'"\ud800"', r'"\u00e9"']),
    lambda inner: (
        st.lists(inner, max_size=3).map(lambda items: f"[{', '.join(items)}]")
        | inner.map(lambda item: f'{{"k": {item}, "k": {item}}}')
    ),
    max_leaves=5,
)


@given(
    rpc_id=spelled,
    method=st.sampled_from(["tools/call", "notifications/cancelled", "ping"]),
    value=spelled,
    key=st.sampled_from(["id", "result", "error"]),
)
def test_numbers_are_read_as_they_are_spelled(rpc_id: str, method: str, value: str, key: str) -> None:
    """The quick parser gives what the lenient one gives, which keeps the spelling."""
    params = f'{{"name": "t", "arguments": {{"a": {value}}}, "requestId": {rpc_id}}}'
    for text in (
        f'{{"id": {rpc_id}, "method": "{method}", "params": {params}}}',
        f'{{"method": "{method}", "params": {params}}}',
        f'{{"id": {rpc_id}, "{key}": {{"isError": true, "content": {value}}}}}',
    ):
        assert parse(text.encode()) == message(loads(text.encode()))


@pytest.mark.parametrize("form", ["utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le"])
def test_a_call_in_another_form_of_unicode_is_read_as_servers_do(form: str) -> None:
    text = '{"id":1,"method":"tools/call","params":{"name":"é","arguments":{"a":1.50}}}'
    body = text.encode(form)
    assert json.loads(body) == json.loads(text)  # what a server in Python runs
    assert parse(body) == parse(text.encode())
    assert response_result('{"id":1,"result":{"a":1}}'.encode(form), "1") == {"a": 1}


@pytest.mark.parametrize(
    "body",
    [b"", b"\n", b"{", b"[" * 200_000, b'{"id":' + b"9" * 5000 + b"}", b"\xff\xfe", b"null", b"1e999", b"{}"],
    ids=lambda body: repr(body[:12]),
)
def test_other_lines_are_invalid(body: bytes) -> None:
    assert parse(body).kind == "invalid"


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        ({"id": 1, "method": "x/vendor"}, "request"),
        ({"id": None, "method": "ping"}, "request"),
        ({"method": "notifications/initialized"}, "notification"),
        ({"id": 1, "result": {}}, "response"),
        ({"id": None, "error": {"code": -32700, "message": "no"}}, "response"),
        ([{"id": 1, "method": "ping"}], "batch"),
        ({"id": 1}, "invalid"),
        ([1], "batch"),
    ],
)
def test_kinds(message: Any, kind: str) -> None:
    assert parse(json.dumps(message).encode()).kind == kind


def test_ids_keep_their_spelling() -> None:
    spellings = ["1", "1.0", "1e0", '"1"', "null", "123456789012345678901234567890"]
    ids = [parse(f'{{"id": {spelling}, "method": "m"}}'.encode()).rpc_id for spelling in spellings]
    assert ids == spellings
    assert id_text("é") == parse('{"id":"é","method":"m"}'.encode()).rpc_id


def test_an_answer_is_found_by_its_spelling_or_else_its_number() -> None:
    batch = b'[{"id":1,"result":"int"},{"id":1.0,"result":"float"},{"id":"1","result":"text"}]'
    assert [response_text(batch, rpc_id) for rpc_id in ("1", "1.0", '"1"')] == ['"int"', '"float"', '"text"']
    assert response_result(b'{"id":7,"result":{"a":1}}', "7.0") == {"a": 1}
    assert response_text(batch, "1e0") in ('"int"', '"float"')
    assert response_result(b'{"id":7,"result":{"a":1}}', '"7"') == {"a": 1}
    assert response_result(b'{"id":7,"result":{"a":1}}', '"seven"') is None


@given(st.text(st.characters(exclude_categories=["Cs"])), st.dictionaries(st.text(), json_values))
def test_a_call_is_read_back(tool: str, arguments: dict[str, Any]) -> None:
    message = {
        "jsonrpc": "2.0",
        "id": 3,
        "method": "tools/call",
        "params": {"name": tool, "arguments": arguments},
    }
    text = json.dumps(message, ensure_ascii=False)
    frame = parse(text.encode("utf-8", "replace") + b"\r\n")
    assert frame.is_call
    assert frame.tool == tool
    assert frame.arguments is not None
    finite = all(word not in text for word in ("NaN", "Infinity"))
    if finite and text.isprintable():
        assert json.loads(frame.arguments) == arguments


def test_broken_utf8_and_nan_are_read_as_servers_do() -> None:
    frame = parse(
        b'{"id":1,"method":"tools/call","params":{"name":"t","arguments":{"a":"\xff","b":NaN,"c":1e999}}}'
    )
    assert frame.is_call
    assert json.loads(frame.arguments or "") == {"a": "\ufffd", "b": "NaN", "c": "1e999"}


@pytest.mark.parametrize(
    ("payload", "outcome", "text"),
    [
        (
            {"result": {"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}},
            "ok",
            "a\nb",
        ),
        ({"result": {"content": [{"type": "text", "text": "no"}], "isError": True}}, "tool_error", "no"),
        ({"error": {"code": -32602, "message": "no such tool"}}, "rpc_error", "no such tool"),
        ({"result": {"content": [{"type": "text", "text": "a"}]}, "error": None}, "ok", "a"),
        ({"result": None, "error": {"message": "no"}}, "rpc_error", "no"),
        ({"error": None}, "rpc_error", "null"),
        ({"result": {"content": [], "structuredContent": {"a": 1}}}, "ok", '{"a":1}'),
        (
            {"result": {"content": [{"type": "image", "mimeType": "image/png", "data": "AAAA"}]}},
            "ok",
            "[image: image/png, 4 characters of base64]",
        ),
        ({"result": {"content": [{"type": "text", "text": "\ud800"}]}}, "ok", "?"),
    ],
)
def test_responses_say_outcome_and_text(payload: dict[str, Any], outcome: str, text: str) -> None:
    body = json.dumps({"jsonrpc": "2.0", "id": 1.5, **payload}).encode()
    assert parse(body).outcome == outcome
    assert response_text(body, "1.5") == text
    batch = b'[{"id":1,"result":{}},' + body + b"]"
    assert response_text(batch, "1.5") == text
