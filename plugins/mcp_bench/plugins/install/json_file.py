"""Edit JSON files that people write. Comments and layout stay.

The text is parsed only to find positions in it (json-five reads comments and trailing commas, as the agents
do). All other bytes stay the same.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from json5.loader import ModelLoader, loads
from json5.model import JSONObject, KeyValuePair
from json5.tokenizer import tokenize

from mcp_bench.plugins.install.errors import UnreadableSettingsError

NOT_CODE = {"WHITESPACE", "LINE_COMMENT", "BLOCK_COMMENT"}
LAST_ON_LINE = re.compile(r"[ \t]*(?://[^\n]*|/\*(?:(?!\*/)[^\n])*\*/(?=[ \t]*\n))")
"""A comment, if nothing follows it on its line."""


def read(text: str) -> Any:
    """Return the file's content as plain values; an empty file has none.

    Raises:
        UnreadableSettingsError: the text is not JSON.
    """
    return {} if not text.strip() else _parsed(text, None)


def get(text: str, keys: Sequence[str]) -> Any:
    """Return the value at a path of keys, or None.

    Raises:
        UnreadableSettingsError: the text is not a JSON object, or a value on the way is not.
    """
    value = read(text)
    for key in keys:
        if not isinstance(value, dict):
            raise UnreadableSettingsError(f"the parent of {key!r} is not an object")
        value = value.get(key)
        if value is None:
            return None
    return value


def put(text: str, keys: Sequence[str], value: Any) -> str:
    """Return the text with a value at a path of keys; creates objects on the way.

    Raises:
        UnreadableSettingsError: as for `get`.
    """
    if not text.strip():
        text = "{}\n"
    holder, missing = _object(text), list(keys)
    depth = 0
    while (pair := _member(holder, missing[0])) is not None and len(missing) > 1:
        holder, depth = _as_object(pair.value, missing.pop(0)), depth + 1
    for key in reversed(missing[1:]):
        value = {key: value}
    if pair is not None:
        start, end = _span(pair.value)
        return text[:start] + _dumped(value, depth + 1) + text[end:]
    opened, closed = _span(holder)
    after = text[opened + 1 : closed - 1]
    indent = "  " * depth
    new = f"\n{indent}  {json.dumps(missing[0])}: {_dumped(value, depth + 1)}"
    if holder.key_value_pairs:
        new += ","
    elif "\n" not in after:
        new += f"\n{indent}"
    # a comment that ends the line of the brace is about the object, so it stays there
    comment = LAST_ON_LINE.match(text, opened + 1)
    place = comment.end() if comment else opened + 1
    return text[:place] + new + text[place:]


def remove(text: str, keys: Sequence[str]) -> str:
    """Return the text without the member at a path of keys and one comma; unchanged if there is none.

    Comments around the member stay: they may be about the others.

    Raises:
        UnreadableSettingsError: as for `get`.
    """
    if not text.strip():
        return text
    holder = _object(text)
    for key in keys[:-1]:
        pair = _member(holder, key)
        if pair is None:
            return text
        holder = _as_object(pair.value, key)
    pairs = list(holder.key_value_pairs)
    number = next((n for n, pair in enumerate(pairs) if _name(pair) == keys[-1]), None)
    if number is None:
        return text
    start, end = _span(pairs[number].key)[0], _span(pairs[number].value)[1]
    code = [token for token in tokenize(text) if token.type not in NOT_CODE]
    preceding = next(token for token in reversed(code) if token.index < start)
    following = next(token for token in code if token.index >= end)
    before, after = text[:start], text[end:]
    if following.type == "COMMA":
        after = text[end : following.index] + text[following.end :]
    elif preceding.type == "COMMA":
        before = text[: preceding.index] + text[preceding.end : start]
    return _without_line(before, after)


def dumped(keys: Sequence[str], value: Any) -> str:
    """Return a file that has only a value at a path of keys."""
    return put("", keys, value)


def _object(text: str) -> JSONObject:
    return _as_object(_parsed(text, ModelLoader()).value, "the file")


def _parsed(text: str, loader: ModelLoader | None) -> Any:
    try:
        return loads(text) if loader is None else loads(text, loader=loader)
    except ValueError as error:
        raise UnreadableSettingsError(f"it is not JSON: {str(error).splitlines()[0]}") from error


def _as_object(value: Any, name: str) -> JSONObject:
    if not isinstance(value, JSONObject):
        raise UnreadableSettingsError(f"{name!r} is not an object")
    return value


def _member(holder: JSONObject, key: str) -> KeyValuePair | None:
    return next((pair for pair in holder.key_value_pairs if _name(pair) == key), None)


def _name(pair: KeyValuePair) -> str:
    return str(getattr(pair.key, "characters", None) or getattr(pair.key, "name", ""))


def _span(node: Any) -> tuple[int, int]:
    """Return where a node of the parsed text begins and ends."""
    return node._tok.index, node._end_tok.end


def _without_line(before: str, after: str) -> str:
    """Join what stood before and after a member, without its line if nothing else is on it."""
    left, right = before.rstrip(" \t"), after.lstrip(" \t")
    if left.endswith("\n") and right.startswith("\n"):
        return left + right[1:]
    return before + after


def _dumped(value: Any, depth: int) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False).replace("\n", "\n" + "  " * depth)
