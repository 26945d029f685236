"""Edit JSON files that people write. Comments and layout stay.

A file may have comments and trailing commas, as the agents read them. With blanks in their place it is plain
JSON in which all else stands where it stood, so `json` finds the values and their positions, and fast: an
agent's file can have hundreds of kilobytes. All other bytes stay the same.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from mcp_bench.plugins.install.errors import UnreadableSettingsError
from mcp_bench.plugins.install.line_ends import in_ends_of

STRING = r'"(?:[^"\\]+|\\.)*"?'
COMMENT = re.compile(rf"{STRING}|(//[^\r\n]*|/\*.*?\*/)", re.DOTALL)
TRAILING_COMMA = re.compile(rf"{STRING}|[\[{{:,]\s*,|(,)(?=\s*[\]}}])", re.DOTALL)
"""A comma after a value and before a closing bracket. Any other that is too many stays, as an error."""
LAST_ON_LINE = re.compile(r"[ \t]*(?://[^\r\n]*|/\*(?:(?!\*/)[^\r\n])*\*/(?=[ \t]*\r?\n))")
"""A comment, if nothing follows it on its line."""
LINE_END = re.compile(r"[ \t]*\r?\n")
SPACE = re.compile(r"[ \t\r\n]*")
IN_LINE = re.compile(r"[^\r\n]")
DECODER = json.JSONDecoder()


@dataclass(frozen=True)
class Member:
    """A member of an object, and where it stands in the text."""

    name: str
    start: int
    value: Any
    value_start: int
    end: int


def read(text: str) -> Any:
    """Return the file's content as plain values; an empty file has none.

    Raises:
        UnreadableSettingsError: the text is not JSON.
    """
    if not text.strip():
        return {}
    try:
        return json.loads(_plain(text))
    except (ValueError, RecursionError) as error:
        raise UnreadableSettingsError(f"it is not JSON: {error}") from error


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
    plain, start = _opened(text)
    missing, depth = list(keys), 0
    while (member := _member(plain, start, missing[0])) is not None and len(missing) > 1:
        start, depth = _object(member), depth + 1
        del missing[0]
    for key in reversed(missing[1:]):
        value = {key: value}
    if member is not None:
        new = in_ends_of(text, _dumped(value, depth + 1))
        return text[: member.value_start] + new + text[member.end :]
    indent = "  " * depth
    new = f"\n{indent}  {json.dumps(missing[0])}: {_dumped(value, depth + 1)}"
    first = _after_space(plain, start + 1)
    if plain[first] != "}":
        new += ","
    elif "\n" not in text[start:first]:
        new += f"\n{indent}"
    # a comment that ends the line of the brace is about the object, so it stays there
    comment = LAST_ON_LINE.match(text, start + 1)
    place = comment.end() if comment else start + 1
    if line_end := LINE_END.match(text, place):
        place, new = line_end.end(), new[1:] + "\n"
    return text[:place] + in_ends_of(text, new) + text[place:]


def remove(text: str, keys: Sequence[str]) -> str:
    """Return the text without the member at a path of keys and one comma; unchanged if there is none.

    Comments around the member stay: they may be about the others.

    Raises:
        UnreadableSettingsError: as for `get`.
    """
    if not text.strip():
        return text
    plain, start = _opened(text)
    for key in keys[:-1]:
        holder = _member(plain, start, key)
        if holder is None:
            return text
        start = _object(holder)
    member = _member(plain, start, keys[-1])
    if member is None:
        return text
    before, after = text[: member.start], text[member.end :]
    code = _without(COMMENT, text)  # with its trailing commas
    following, preceding = _after_space(code, member.end), len(code[: member.start].rstrip()) - 1
    if code[following] == ",":
        after = text[member.end : following] + text[following + 1 :]
    elif code[preceding] == ",":
        before = text[:preceding] + text[preceding + 1 : member.start]
    return _without_line(before, after)


def dumped(keys: Sequence[str], value: Any) -> str:
    """Return a file that has only a value at a path of keys."""
    return put("", keys, value)


def _plain(text: str) -> str:
    return _without(TRAILING_COMMA, _without(COMMENT, text))


def _without(pattern: re.Pattern[str], text: str) -> str:
    """Return the text with blanks in place of the pattern's group; lines stay."""
    return pattern.sub(lambda found: IN_LINE.sub(" ", found[0]) if found[1] else found[0], text)


def _opened(text: str) -> tuple[str, int]:
    """Return the text as plain JSON, and where its object begins."""
    if not isinstance(read(text), dict):
        raise UnreadableSettingsError("the file is not an object")
    plain = _plain(text)
    return plain, _after_space(plain, 0)


def _object(member: Member) -> int:
    """Return where the object begins that a member has as its value."""
    if not isinstance(member.value, dict):
        raise UnreadableSettingsError(f"{member.name!r} is not an object")
    return member.value_start


def _member(plain: str, start: int, name: str) -> Member | None:
    return next((member for member in _members(plain, start) if member.name == name), None)


def _members(plain: str, start: int) -> Iterator[Member]:
    """Yield the members of the object that begins at `start`; the text is known to be JSON."""
    place = _after_space(plain, start + 1)
    while plain[place] != "}":
        name, colon = DECODER.raw_decode(plain, place)
        value_start = _after_space(plain, _after_space(plain, colon) + 1)
        value, end = DECODER.raw_decode(plain, value_start)
        yield Member(name, place, value, value_start, end)
        place = _after_space(plain, end)
        if plain[place] == ",":
            place = _after_space(plain, place + 1)


def _after_space(plain: str, place: int) -> int:
    found = SPACE.match(plain, place)
    return found.end() if found else place


def _without_line(before: str, after: str) -> str:
    """Join what stood before and after a member, without its line if nothing else is on it."""
    left, right = before.rstrip(" \t"), after.lstrip(" \t")
    if left.endswith("\n") and right.startswith(("\n", "\r\n")):
        return left + right.partition("\n")[2]
    return before + after


def _dumped(value: Any, depth: int) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False).replace("\n", "\n" + "  " * depth)
