"""Edit TOML files that people write, with tomlkit: comments and layout stay."""

from __future__ import annotations

from collections.abc import MutableMapping, Sequence
from typing import Any

import tomlkit
from tomlkit.exceptions import TOMLKitError

from mcp_bench.plugins.install.errors import UnreadableSettingsError


def get(text: str, keys: Sequence[str]) -> Any:
    """Return the value at a path of keys, or None.

    Raises:
        UnreadableSettingsError: the text is not TOML, or a value on the way is not a table.
    """
    value: Any = _parsed(text).unwrap()
    for key in keys:
        if not isinstance(value, dict):
            raise UnreadableSettingsError(f"the parent of {key!r} is not a table")
        value = value.get(key)
        if value is None:
            return None
    return value


def put(text: str, keys: Sequence[str], value: dict[str, Any]) -> str:
    """Return the text with a table at a path of keys; creates tables on the way.

    Raises:
        UnreadableSettingsError: as for `get`.
    """
    document = _parsed(text)
    holder: MutableMapping[str, Any] = document
    for key in keys[:-1]:
        if key not in holder:
            holder[key] = tomlkit.table(is_super_table=True)
        holder = _table(holder[key], key)
    entry = tomlkit.table()
    for name, part in value.items():
        entry[name] = part
    holder[keys[-1]] = entry
    return tomlkit.dumps(document)


def remove(text: str, keys: Sequence[str]) -> str:
    """Return the text without the table at a path of keys; unchanged if there is none.

    Raises:
        UnreadableSettingsError: as for `get`.
    """
    document = _parsed(text)
    holder: MutableMapping[str, Any] = document
    for key in keys[:-1]:
        if key not in holder:
            return text
        holder = _table(holder[key], key)
    if keys[-1] not in holder:
        return text
    del holder[keys[-1]]
    return tomlkit.dumps(document)


def dumped(keys: Sequence[str], value: dict[str, Any]) -> str:
    """Return a file that has only a table at a path of keys."""
    return put("", keys, value)


def _parsed(text: str) -> tomlkit.TOMLDocument:
    try:
        return tomlkit.parse(text)
    except TOMLKitError as error:
        raise UnreadableSettingsError(f"it is not TOML: {error}") from error


def _table(value: Any, name: str) -> MutableMapping[str, Any]:
    if not isinstance(value, MutableMapping):
        raise UnreadableSettingsError(f"{name!r} is not a table")
    return value
