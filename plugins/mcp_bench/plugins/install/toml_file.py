"""Edit TOML files that people write, with tomlkit: comments and layout stay."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, MutableMapping, Sequence
from contextlib import contextmanager
from io import StringIO
from typing import Any

import tomlkit
from tomlkit.exceptions import TOMLKitError
from tomlkit.items import InlineTable

from mcp_bench.plugins.install.errors import UnreadableSettingsError
from mcp_bench.plugins.install.line_ends import in_ends_of


def read(text: str) -> Any:
    """Return the file's content as plain values.

    Raises:
        UnreadableSettingsError: the text is not TOML.
    """
    with _refusal("it is not TOML"):
        return tomlkit.parse(text).unwrap()


def get(text: str, keys: Sequence[str]) -> Any:
    """Return the value at a path of keys, or None.

    Raises:
        UnreadableSettingsError: the text is not TOML, or a value on the way is not a table.
    """
    value = read(text)
    for key in keys:
        if not isinstance(value, dict):
            raise UnreadableSettingsError(f"the parent of {key!r} is not a table")
        value = value.get(key)
        if value is None:
            return None
    return value


def put(text: str, keys: Sequence[str], value: dict[str, Any]) -> str:
    """Return the text with a table at a path of keys, which replaces the one that is there.

    A new table goes to the end of the file. Anywhere else, the keys after it could become its own.

    Raises:
        UnreadableSettingsError: as for `get`, or tomlkit cannot edit the text.
    """
    text = remove(text, keys)
    with _refusal("tomlkit cannot edit it"):
        document = tomlkit.parse(text)
        holder = _holder(document, keys)
        if isinstance(holder, InlineTable):
            holder[keys[-1]] = value
            return tomlkit.dumps(document)
        lines = text.replace("\r\n", "\n")
        gap = "" if not text or lines.endswith("\n\n") else "\n" if lines.endswith("\n") else "\n\n"
        return text + in_ends_of(text, gap + dumped(keys, value))


def remove(text: str, keys: Sequence[str]) -> str:
    """Return the text without the table at a path of keys; unchanged if there is none.

    Raises:
        UnreadableSettingsError: as for `put`.
    """
    with _refusal("tomlkit cannot edit it"):
        document = tomlkit.parse(text)
        holder = _holder(document, keys)
        if holder is None or keys[-1] not in holder:
            return text
        del holder[keys[-1]]
        return _with_comments(tomlkit.dumps(document), text)


def dumped(keys: Sequence[str], value: dict[str, Any]) -> str:
    """Return a file that has only a table at a path of keys."""
    document = tomlkit.document()
    holder: MutableMapping[str, Any] = document
    for key in keys[:-1]:
        holder[key] = tomlkit.table(is_super_table=True)
        holder = holder[key]
    holder[keys[-1]] = value
    return tomlkit.dumps(document)


@contextmanager
def _refusal(problem: str) -> Iterator[None]:
    try:
        yield
    except (TOMLKitError, ValueError) as error:
        raise UnreadableSettingsError(f"{problem}: {error}") from error


def _holder(document: MutableMapping[str, Any], keys: Sequence[str]) -> MutableMapping[str, Any] | None:
    """Return the table that has, or would have, the last key; None if there is none yet."""
    holder = document
    for key in keys[:-1]:
        if key not in holder:
            return None
        value = holder[key]
        if not isinstance(value, MutableMapping):
            raise UnreadableSettingsError(f"{key!r} is not a table")
        holder = value
    return holder


def _with_comments(rest: str, text: str) -> str:
    """Return what tomlkit left of a text, with the comments that stood below the removed lines.

    They are about what follows, but tomlkit removes them as a part of the table above.
    """
    left = deque(_lines(rest))
    lines: list[str] = []
    comments: list[str] = []
    for line in _lines(text):
        if left and line == left[0]:
            lines += [*comments, left.popleft()]
            comments = []
        elif not line.strip() or _is_comment(line):
            comments.append(line)
        else:
            comments = []
    if not left:
        return "".join(lines + comments)
    # tomlkit changed lines (of an inline table) or their order
    if any(_is_comment(line) and line not in rest for line in _lines(text)):
        raise UnreadableSettingsError("comments would be lost")
    return rest


def _is_comment(line: str) -> bool:
    return line.lstrip().startswith("#")


def _lines(text: str) -> StringIO:
    """Return the lines as TOML counts them: `str.splitlines` also ends one at other characters."""
    return StringIO(text, newline="\n")
