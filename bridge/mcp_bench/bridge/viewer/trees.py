"""Arguments and results as HTML that can be folded: JSON as a tree, other text as it is.

Large values are cut. Drawing a result of 10 MB would stop the browser, so the page links to all of it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from mcp_bench.recorder.counted import counted
from mcp_bench.servers.terminal.sanitize import sanitize, sanitize_line

MOST_NODES = 400
MOST_CHARACTERS = 6_000
MOST_IN_STRING = 2_000
MOST_IN_NAME = 200
"""Characters of the name of a field."""
MOST_PARSED = 2_000_000
"""Characters of a text that is still parsed as JSON."""
SUMMARY = 110
"""Characters of a value on one line."""
_DEPTH = 40
_OPEN_CHILDREN = 12
_SHORT = 72
_SHORT_CELL = 160
_MOST_COLUMNS = 12


@dataclass(frozen=True, slots=True)
class Drawn:
    """A value as HTML. `cut` says whether something was left out."""

    html: Markup
    cut: bool
    size: int
    """Characters of the whole value."""


def draw_text(text: str) -> Drawn:
    """Return a text as a tree if it is a JSON object or array, otherwise as preformatted text."""
    if text[:1] in "{[" and len(text) <= MOST_PARSED:
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            pass
        else:
            if isinstance(value, dict | list) and value:
                return draw_value(value, len(text))
    shown = text[:MOST_CHARACTERS]
    return Drawn(
        Markup('<pre class="text">{}</pre>').format(sanitize(shown)), len(shown) < len(text), len(text)
    )


def draw_value(value: Any, size: int | None = None) -> Drawn:
    """Return a JSON value as a tree."""
    tree = _Tree()
    html = tree.node(value, 0)
    size = len(json.dumps(value, ensure_ascii=False)) if size is None else size
    return Drawn(Markup('<div class="tree">{}</div>').format(html), tree.cut, size)


class _Tree:
    def __init__(self) -> None:
        self.cut = False
        self._left = MOST_NODES

    def node(self, value: Any, depth: int) -> Markup:
        self._left -= 1
        if isinstance(value, dict | list) and value:
            if depth >= _DEPTH:
                self.cut = True
                return Markup('<span class="more">…</span>')
            return self._branch(value, depth)
        return self._leaf(value)

    def _branch(self, value: dict[str, Any] | list[Any], depth: int) -> Markup:
        is_object = isinstance(value, dict)
        flat = _one_line(value)
        if flat is not None and depth > 0:
            self._left -= len(value)
            return flat
        if isinstance(value, list) and (columns := _columns(value)):
            return self._table(value, columns, depth)
        pairs = list(value.items()) if isinstance(value, dict) else list(enumerate(value))
        rows = []
        for at, (key, item) in enumerate(pairs):
            if self._left <= 0:
                self.cut = True
                rows.append(Markup('<li class="more">… {} more</li>').format(len(pairs) - at))
                break
            name = Markup('<span class="key">{}</span>').format(self._name(str(key)))
            rows.append(Markup("<li>{} {}</li>").format(name, self.node(item, depth + 1)))
        inner = Markup('<ul class="{}">{}</ul>').format(
            "object" if is_object else "array", Markup().join(rows)
        )
        if depth == 0:
            return inner
        count = counted(len(pairs), "field" if is_object else "item")
        opened = Markup(" open") if len(pairs) <= _OPEN_CHILDREN or depth < 2 else ""
        return Markup("<details{}><summary>{}</summary>{}</details>").format(opened, count, inner)

    def _table(self, rows: list[dict[str, Any]], columns: list[str], depth: int) -> Markup:
        """Return records with the same plain fields as a table."""
        cell = Markup("<td>{}</td>")
        shown = []
        for row in rows:
            if self._left <= 0:
                self.cut = True
                break
            self._left -= len(columns)
            cells = [cell.format(self._leaf(row[name]) if name in row else "") for name in columns]
            shown.append(Markup("<tr>{}</tr>").format(Markup().join(cells)))
        head = Markup().join(Markup('<th scope="col">{}</th>').format(self._name(name)) for name in columns)
        more = Markup()
        if len(shown) < len(rows):
            more = Markup('<p class="more">… {} more</p>').format(len(rows) - len(shown))
        table = Markup(
            '<div class="records"><table><thead><tr>{}</tr></thead><tbody>{}</tbody></table>{}</div>'
        ).format(head, Markup().join(shown), more)
        if depth == 0:
            return table
        opened = Markup(" open") if len(rows) <= _OPEN_CHILDREN or depth < 2 else ""
        return Markup("<details{}><summary>{}</summary>{}</details>").format(
            opened, counted(len(rows), "item"), table
        )

    def _name(self, name: str) -> str:
        if len(name) > MOST_IN_NAME:
            self.cut = True
            name = name[:MOST_IN_NAME] + "…"
        return sanitize_line(name)

    def _leaf(self, value: Any) -> Markup:
        if isinstance(value, str):
            if len(value) > MOST_IN_STRING:
                self.cut = True
                value = value[:MOST_IN_STRING] + "…"
            kind = "long" if len(value) > _SHORT or "\n" in value else "string"
            return Markup('<span class="{}">{}</span>').format(kind, sanitize(value) or "“”")
        return Markup('<span class="{}">{}</span>').format(_kind(value), json.dumps(value))


def _columns(rows: list[Any]) -> list[str] | None:
    """Return the fields of records that fit a table: two or more, alike, with short plain values."""
    if len(rows) < 2 or not all(isinstance(row, dict) and row for row in rows):
        return None
    names = list(dict.fromkeys(name for row in rows for name in row))
    filled = sum(map(len, rows)) / (len(rows) * len(names))
    plain = all(
        not isinstance(value, dict | list) and (not isinstance(value, str) or len(value) <= _SHORT_CELL)
        for row in rows
        for value in row.values()
    )
    return names if len(names) <= _MOST_COLUMNS and filled >= 0.7 and plain else None


def _one_line(value: dict[str, Any] | list[Any]) -> Markup | None:
    """Return a short list of plain values on one line."""
    if not isinstance(value, list) or any(isinstance(item, dict | list) for item in value):
        return None
    if sum(len(str(item)) + 2 for item in value[:_SHORT]) > _SHORT or len(value) > _SHORT:
        return None
    if any(isinstance(item, str) and "\n" in item for item in value):
        return None
    parts = [
        Markup('<span class="{}">{}</span>').format(
            _kind(item), sanitize_line(item) if isinstance(item, str) else json.dumps(item)
        )
        for item in value
    ]
    return Markup('<span class="flat">{}</span>').format(Markup(", ").join(parts))


def _kind(value: Any) -> str:
    if isinstance(value, str):
        return "string"
    return "none" if value is None else "bool" if isinstance(value, bool) else "number"


def summary_line(value: Any) -> str:
    """Return a value on one line, such as the arguments of a call beside its folded body."""
    if isinstance(value, dict):
        text = ", ".join(f"{key} {_brief(item)}" for key, item in value.items())
    else:
        text = _brief(value)
    text = sanitize_line(" ".join(text[: SUMMARY * 4].split()))
    return text if len(text) <= SUMMARY else f"{text[: SUMMARY - 1]}…"


def _brief(value: Any) -> str:
    return value[:400] if isinstance(value, str) else json.dumps(value, ensure_ascii=False)[:400]
