"""Forms of calls with a tag for each argument: `qwen3_coder` and `glm45`.

Strings stand in them without quotes, so the tools' schemas decide what is a string and what is a number.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from mcp_bench.trainer.chat.answer import (
    Call,
    MalformedCallError,
    properties_of,
    referred,
    typed,
    types_of,
    with_definitions,
)
from mcp_bench.trainer.chat.grammar import MOST_KEYS, Pieces, ordered_properties
from mcp_bench.trainer.chat.json_calls import Tools, before_mark, found, named_schemas, outside, skip_blanks

OPENING, CLOSING = "<tool_call>", "</tool_call>"


class TaggedCalls:
    """What both forms share: a block in `<tool_call>` with a name, and then keys and values."""

    name: str
    marks: tuple[str, ...]
    block: re.Pattern[str]
    """Matches a whole call, with the groups `name` and `arguments`."""
    argument: re.Pattern[str]
    """Matches one argument, with the groups `key` and `value`."""

    def split(self, text: str, tools: Tools) -> tuple[str, tuple[Call, ...]]:
        """Return the text outside of calls, and the calls; see `CallFormat`."""
        calls, spans, at = [], [], text.find(OPENING)
        while at >= 0:
            block = self.block.match(text, at)
            if block is None:
                raise MalformedCallError("a call that is not in its form")
            calls.append(Call(block["name"], self._arguments(block, properties_of(tools, block["name"]))))
            spans.append(block.span())
            at = text.find(OPENING, block.end())
        return outside(text, spans), tuple(calls)

    def _arguments(self, block: re.Match[str], schemas: Mapping[str, Any]) -> dict[str, Any]:
        arguments: dict[str, Any] = {}
        rest = block["arguments"]
        at = skip_blanks(rest, 0)
        while at < len(rest):
            argument = self.argument.match(rest, at)
            if argument is None:
                raise MalformedCallError("an argument that is not in its form")
            arguments[argument["key"]] = typed(argument["value"], schemas.get(argument["key"]))
            at = skip_blanks(rest, argument.end())
        return arguments

    def begin(self, text: str) -> int | None:
        """Return where the first call begins; see `CallFormat`."""
        return found(text, OPENING)

    def held(self, text: str) -> int:
        """Return the length of the certain text; see `CallFormat`."""
        return before_mark(text, OPENING)

    def _members(self, schema: Any, pieces: Pieces, before: str, between: str, close: str) -> str:
        """Return the expression of all arguments, each as `before KEY between VALUE close`."""
        schema = schema if isinstance(schema, dict) else {}
        members = {}
        for key, inner in ordered_properties(schema).items():
            value = _value(with_definitions(inner, schema), pieces, close)
            parts = [*pieces_of(before + key + between, pieces, self.marks), value]
            members[key] = " ".join(parts)
        if len(members) > MOST_KEYS:
            return f"({' | '.join(members.values())})*"
        return pieces.in_any_order(members, schema, "") if members else '""'


class Qwen3Coder(TaggedCalls):
    """`<tool_call><function=NAME><parameter=KEY>VALUE</parameter>...`: Qwen 3.5, Qwen3-Coder."""

    name = "qwen3_coder"
    marks: tuple[str, ...] = (OPENING, CLOSING)
    block = re.compile(
        r"<tool_call>\s*<function=(?P<name>[^>\n]+)>(?P<arguments>.*?)</function>\s*(?:</tool_call>|\Z)",
        re.DOTALL,
    )
    argument = re.compile(r"<parameter=(?P<key>[^>\n]+)>\n?(?P<value>.*?)\n?</parameter>", re.DOTALL)

    def rules(self, tools: Tools, pieces: Pieces) -> tuple[str, str | None]:
        """Return the expressions of the grammar; see `CallFormat`."""
        each = []
        for name, schema in named_schemas(tools):
            members = self._members(schema, pieces, "<parameter=", ">\n", "\n</parameter>\n")
            opening = pieces.literal(f"<function={name}>\n")
            each.append(f"{opening} {members}")
        opening, closing = pieces.literal(OPENING), pieces.literal(CLOSING)
        return f'{opening} "\\n"? ({" | ".join(each)}) "</function>" "\\n"? {closing}', '"\\n"?'


class Glm45(TaggedCalls):
    """`<tool_call>NAME<arg_key>KEY</arg_key><arg_value>VALUE</arg_value>...`: GLM 4.5 and later."""

    name = "glm45"
    marks: tuple[str, ...] = (OPENING, CLOSING, "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>")
    # nothing optional between arguments and end: blanks without an end would take quadratic time
    block = re.compile(
        r"<tool_call>\s*(?P<name>[^\s<]+)\s*(?P<arguments>(?:<arg_key>.*?)?)(?:</tool_call>|\Z)", re.DOTALL
    )
    argument = re.compile(
        r"<arg_key>(?P<key>.*?)</arg_key>\s*<arg_value>(?P<value>.*?)</arg_value>", re.DOTALL
    )

    def rules(self, tools: Tools, pieces: Pieces) -> tuple[str, str | None]:
        """Return the expressions of the grammar; see `CallFormat`."""
        each = []
        for name, schema in named_schemas(tools):
            members = self._members(schema, pieces, "\n<arg_key>", "</arg_key>\n<arg_value>", "</arg_value>")
            each.append(f"{pieces.literal(name)} {members}")
        return f'{pieces.literal(OPENING)} ({" | ".join(each)}) "\\n"? {pieces.literal(CLOSING)}', '"\\n"?'


def _value(schema: dict[str, Any], pieces: Pieces, close: str) -> str:
    """Return the expression of an argument's value, with what closes it."""
    forms = _forms(schema, schema, pieces, set())
    if not forms:
        # a string ends where the parser ends it, at the first mark, with or without a line break before it
        mark = close.strip()
        after = close[close.index(mark) + len(mark) :]
        return " ".join([pieces.until(mark), *([pieces.literal(after)] if after else [])])
    return f"({' | '.join(dict.fromkeys(forms))}) {' '.join(pieces_of(close, pieces, Glm45.marks))}"


def _forms(schema: object, root: dict[str, Any], pieces: Pieces, followed: set[str]) -> list[str] | None:
    """Return the expressions that a value may have; None: it may be any text.

    Args:
        schema: the value's schema, or a part of it.
        root: the schema with the definitions.
        pieces: makes expressions.
        followed: the references on the way here. One that leads to itself adds nothing.
    """
    if not isinstance(schema, dict):
        return None
    reference = schema.get("$ref")
    if isinstance(reference, str):
        if reference in followed:
            return []
        target, beside = referred(reference, root), {key: schema[key] for key in schema if key != "$ref"}
        meant = {**(target if isinstance(target, dict) else {}), **beside}
        return _forms(meant, root, pieces, {*followed, reference})
    choices = [schema["const"]] if "const" in schema else schema.get("enum")
    if isinstance(choices, list) and choices:
        return [form for choice in choices for form in _choice(choice, pieces)]
    for key in ("anyOf", "oneOf", "allOf"):
        parts = schema.get(key)
        if isinstance(parts, list) and (len(parts) == 1 if key == "allOf" else parts):
            found = [_forms(part, root, pieces, followed) for part in parts]
            return None if None in found else [form for forms in found for form in forms or ()]
    kinds = types_of(with_definitions(schema, root))
    if kinds == {"boolean"}:
        return ["/[Tt]rue|[Ff]alse/"]
    if not kinds or "string" in kinds:
        return None
    # templates that render values with `| string` taught the model Python's names
    python = {"boolean": "/True|False/", "null": '"None"'}
    names = [form for kind, form in python.items() if kind in kinds]
    return [pieces.value(with_definitions(schema, root)), *names]


def _choice(choice: object, pieces: Pieces) -> list[str]:
    """Return the expressions of one value that a schema names."""
    if isinstance(choice, str):
        return [pieces.literal(choice)]
    names = [repr(choice)] if choice is None or isinstance(choice, bool) else []
    return [pieces.literal(text) for text in (json.dumps(choice, ensure_ascii=False), *names)]


def pieces_of(text: str, pieces: Pieces, marks: Sequence[str]) -> list[str]:
    """Return the expressions of a fixed text in which marks may be special tokens."""
    parts = re.split(f"({'|'.join(map(re.escape, marks))})", text)
    return [pieces.literal(part) for part in parts if part]
