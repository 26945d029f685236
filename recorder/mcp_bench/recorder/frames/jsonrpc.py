"""Parse a line of an MCP connection. Parsing works on a copy and never raises.

It is as lenient as servers are (invalid UTF-8 is replaced, NaN is read, and so are UTF-16, UTF-32 and a
byte-order mark, as by Python's `json`), because a call that a server runs must be recorded as a call. The
stored frame keeps the exact bytes.
Covers JSON-RPC 2.0 with batches, and the methods of every version of MCP.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal, cast

import orjson

Kind = Literal["request", "response", "notification", "batch", "invalid"]


@dataclass(frozen=True, slots=True)
class Frame:
    """One JSON-RPC message. Ids are JSON text, so that `1`, `1.0` and `"1"` stay three ids."""

    kind: Kind
    method: str | None = None
    rpc_id: str | None = None
    tool: str | None = None
    """Name in a `tools/call` request; None if it is not text."""
    arguments: str | None = None
    """Arguments of a `tools/call` request as JSON text; absent arguments are an empty object."""
    outcome: Literal["ok", "tool_error", "rpc_error"] | None = None
    """The outcome in a response, assuming that its request was a tool call."""
    cancels: str | None = None
    """The id of the request that a `notifications/cancelled` cancels."""
    items: tuple[Frame, ...] = ()
    """The messages of a batch."""

    @property
    def is_call(self) -> bool:
        return self.kind == "request" and self.method == "tools/call"


INVALID = Frame("invalid")
_WITH_NUMBERS = ("tools/call", "notifications/cancelled")
"""Methods whose parameters are part of a frame."""


class _Number(float):
    """A float with its spelling."""

    spelling: str


def _number(spelling: str) -> float | str:
    value = _Number(spelling)
    value.spelling = spelling
    # 1e999 is JSON but not a finite float, and would make the arguments invalid JSON
    return value if math.isfinite(value) else spelling


def _integer(spelling: str) -> int | str:
    # Python refuses to read longer ones
    return int(spelling) if len(spelling) < 4000 else spelling


# Made once: the functions of the json module make a new one for every call with options.
_LENIENT = json.JSONDecoder(parse_float=_number, parse_int=_integer, parse_constant=str)
_COMPACT = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def loads(body: bytes) -> Any:
    """Read JSON leniently. Numbers that Python cannot represent become text.

    Raises:
        ValueError: the text is not JSON, or nested too deep to read.
    """
    try:
        return _LENIENT.decode(body.decode(json.detect_encoding(body), "replace"))
    except RecursionError:
        raise ValueError("nested too deep") from None


def dumps(value: Any) -> str:
    """Return compact JSON text that UTF-8 can encode: a lone surrogate becomes `?`, NaN a string."""
    try:
        text = _COMPACT.encode(value)
    except ValueError:
        return dumps(json.loads(json.dumps(value), parse_constant=str))
    return clean(text)


def clean(text: str) -> str:
    """Return text without lone surrogates, which no database or UTF-8 file accepts."""
    return text.encode("utf-8", "replace").decode("utf-8")


def id_text(rpc_id: object) -> str:
    """Return an id as JSON text: numbers as they were spelled, strings in ASCII."""
    if type(rpc_id) is int:  # nearly all of them
        return str(rpc_id)
    return rpc_id.spelling if isinstance(rpc_id, _Number) else json.dumps(rpc_id)


def same_id(rpc_id: str | None, ids: Collection[str | None]) -> str | None:
    """Return the one of `ids` that is the same as an id, or else the same number; itself if none is.

    All are JSON text. A server may answer 7 or "7" to 7.0, and clients on the SDKs take it; 7 comes first.
    """
    if rpc_id in ids:
        return rpc_id
    same = (one for one in ids if _same_number(one, rpc_id))
    return min(same, key=lambda one: _is_string(one) != _is_string(rpc_id), default=rpc_id)


def _is_string(rpc_id: str | None) -> bool:
    return (rpc_id or "").startswith('"')


def _same_number(one: str | None, other: str | None) -> bool:
    try:
        return float((one or "").strip('"')) == float((other or "").strip('"'))
    except ValueError:
        return False


def parse(body: bytes) -> Frame:
    """Parse one line, or a body of streamable HTTP. Never raises."""
    try:
        value = orjson.loads(body)
        if not _is_exact(value):
            value = loads(body)
        return _frame(value)
    except (ValueError, RecursionError):  # perhaps it is JSON to a lenient server
        return _parse_leniently(body)


def _parse_leniently(body: bytes) -> Frame:
    try:
        return _frame(loads(body))
    except (ValueError, RecursionError):
        return INVALID


def _frame(value: Any) -> Frame:
    if isinstance(value, list):
        return Frame("batch", items=tuple(message(item) for item in value))
    return message(value)


def _is_exact(value: Any) -> bool:
    """Return whether a frame of this value is that of `loads`, which keeps numbers as they are spelled.

    orjson reads integers of more than 64 bits as floats, so only floats can differ.
    """
    if not isinstance(value, dict) or not isinstance(value.get("id"), int | str | None):
        return False
    return value.get("method") not in _WITH_NUMBERS or _has_no_float(value.get("params"))


def _has_no_float(value: Any) -> bool:
    if isinstance(value, dict):
        return all(map(_has_no_float, value.values()))
    if isinstance(value, list):
        return all(map(_has_no_float, value))
    return not isinstance(value, float)


def message(value: Any) -> Frame:
    """Return the frame of one JSON-RPC message that is not a batch."""
    if not isinstance(value, dict):
        return INVALID
    rpc_id = id_text(value["id"]) if "id" in value else None
    method = value.get("method")
    if isinstance(method, str):
        return _with_method(clean(method), rpc_id, value.get("params"))
    if _is_error(value):
        return Frame("response", rpc_id=rpc_id, outcome="rpc_error")
    if "result" in value:
        result = value["result"]
        refused = isinstance(result, dict) and result.get("isError") is True
        return Frame("response", rpc_id=rpc_id, outcome="tool_error" if refused else "ok")
    return INVALID


def _is_error(response: dict[str, Any]) -> bool:
    # some servers put a null beside every result, and clients take the result
    return response.get("error") is not None or ("error" in response and "result" not in response)


def _with_method(method: str, rpc_id: str | None, params: Any) -> Frame:
    named = params if isinstance(params, dict) else {}
    if rpc_id is None:
        cancelled = method == "notifications/cancelled" and "requestId" in named
        return Frame("notification", method, cancels=id_text(named["requestId"]) if cancelled else None)
    if method != "tools/call":
        return Frame("request", method, rpc_id)
    tool = named.get("name")
    return Frame(
        "request",
        method,
        rpc_id,
        tool=clean(tool) if isinstance(tool, str) else None,
        arguments=dumps(named.get("arguments", {})),
    )


def response_result(body: bytes, rpc_id: str) -> dict[str, Any] | None:
    """Return the result object of the response to `rpc_id` in a stored frame, or None."""
    with suppress(ValueError, RecursionError):
        result = json.loads(dumps((_response(body, rpc_id) or {}).get("result")))
        return result if isinstance(result, dict) else None
    return None


def response_text(body: bytes, rpc_id: str) -> str:
    """Return the response to `rpc_id` in a stored frame as text for a conversation.

    Text blocks are joined by line breaks. Images and sounds are only named, other blocks become JSON, and
    an error becomes its message. A response that cannot be read gives an empty text.
    """
    with suppress(ValueError, RecursionError):
        found = _response(body, rpc_id)
        return "" if found is None else clean(_result_text(found))
    return ""


def _response(body: bytes, rpc_id: str) -> dict[str, Any] | None:
    value = loads(body)
    items = [item for item in (value if isinstance(value, list) else [value]) if isinstance(item, dict)]
    by_id = {id_text(item.get("id")): item for item in reversed(items) if "method" not in item}
    return by_id.get(same_id(rpc_id, by_id) or "")


def response_images(body: bytes, rpc_id: str) -> list[tuple[str, str]]:
    """Return the media type and the data, in base64, of each image in the response to `rpc_id`."""
    result = response_result(body, rpc_id) or {}
    blocks = result.get("content")
    return [
        (str(block.get("mimeType")), block["data"])
        for block in (blocks if isinstance(blocks, list) else [])
        if isinstance(block, dict) and block.get("type") == "image" and isinstance(block.get("data"), str)
    ]


def media_text(kind: object, media_type: object, data: str) -> str:
    """Return what stands for an image or a sound in a text."""
    return f"[{kind}: {media_type}, {len(data)} characters of base64]"


def _result_text(response: dict[str, Any]) -> str:
    if _is_error(response):
        error = response["error"]
        message = error.get("message") if isinstance(error, dict) else None
        return message if isinstance(message, str) else dumps(error)
    result = response.get("result")
    if not isinstance(result, dict):
        return dumps(result)
    blocks = result.get("content")
    if isinstance(blocks, list) and blocks:
        return "\n".join(_block_text(block) for block in blocks)
    structured = result.get("structuredContent")
    return "" if structured is None else dumps(structured)


def _block_text(block: Any) -> str:
    if not isinstance(block, dict):
        return dumps(block)
    if block.get("type") == "text" and isinstance(block.get("text"), str):
        return cast(str, block["text"])
    if isinstance(block.get("data"), str):
        return media_text(block.get("type"), block.get("mimeType"), block["data"])
    return dumps(block)
