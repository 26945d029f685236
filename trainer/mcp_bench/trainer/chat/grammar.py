"""Grammars for tool calls, in llguidance's Lark dialect.

https://github.com/guidance-ai/llguidance/blob/main/docs/syntax.md. The keys of a call's arguments may come
in any order, each once, with all required ones: a model writes them in the order of its training data. Inside
of nested objects the order is the schema's.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from mcp_bench.servers.errors import WrongUseError
from mcp_bench.trainer.chat.answer import with_definitions

STYLE = {"whitespace_flexible": False, "item_separator": ", ?", "key_separator": ": ?"}
"""JSON as models write it: on one line, at most one space after a separator. With free white space, a model
that has nothing to say writes blanks until its tokens run out."""
ANY_TEXT = r"/(.|\n)*/"
ANY_VALUE: Mapping[str, Any] = {}
ANY_OBJECT: Mapping[str, Any] = {"type": "object"}
MOST_KEYS = 60
"""llguidance keeps the set of written keys in 64 bits."""


class Pieces:
    """Collects the rules of one grammar."""

    def __init__(self, special: Callable[[str], int | None], accepts: Callable[[str], bool]) -> None:
        """Begin a grammar.

        Args:
            special: returns the id of a special token, or None for ordinary text.
            accepts: returns whether llguidance compiles a grammar. A schema that it refuses is replaced: that
                of a call's arguments by "any object", others by "any value".
        """
        self._special = special
        self._accepts = accepts
        self._rules: dict[str, str] = {}
        self.comma = self.rule("/, ?/")
        self.colon = self.rule("/: ?/")

    def rule(self, body: str, options: str = "") -> str:
        """Add a rule and return its name. Equal rules are added once."""
        key = f"{options}: {body}"
        if key not in self._rules:
            self._rules[key] = f"r{len(self._rules)}"
        return self._rules[key]

    def literal(self, text: str) -> str:
        """Return the expression of a fixed text: one special token, or a string."""
        number = self._special(text)
        return quoted(text) if number is None else f"<[{number}]>"

    def until(self, close: str) -> str:
        """Return the expression of any text up to and including `close`."""
        if self._special(close) is not None:
            return f"{self.rule(ANY_TEXT)} {self.literal(close)}"
        return self.rule(f"{ANY_TEXT} {quoted(close)}", "[lazy]")

    def value(self, schema: object, otherwise: Mapping[str, Any] = ANY_VALUE) -> str:
        """Return the expression of a JSON value that fits a schema, or `otherwise` if that is refused."""
        body = _json(schema if isinstance(schema, dict) else {})
        return self.rule(body if self._accepts(f"start: {body}") else _json(otherwise))

    def arguments(self, schema: object) -> str:
        """Return the expression of the object with a call's arguments."""
        if _takes_nothing(schema):
            return quoted("{}")
        schema = schema if isinstance(schema, dict) else {}
        properties = _plain_properties(schema)
        if properties is None:
            return self.value({**schema, **ANY_OBJECT}, ANY_OBJECT)

        def member(key: str, inner: object) -> str:
            return f"{quoted(quoted(key))} {self.colon} {self.value(inner)}"

        members = {key: member(key, with_definitions(inner, schema)) for key, inner in properties.items()}
        return f'"{{" {self.in_any_order(members, schema, self.comma)} "}}"'

    def in_any_order(self, members: Mapping[str, str], schema: Mapping[str, Any], between: str) -> str:
        """Return the expression of members in any order, each at most once, with all required ones.

        Args:
            members: each property's expression. The first ones must be the schema's required properties.
            schema: the object's schema, for `required`.
            between: the expression between two members; may be empty.
        """
        required = sum(key in required_of(schema) for key in members)
        done = f"is_ones([0:{required}])" if required else "true"
        later, first = f"r{len(self._rules)}", f"r{len(self._rules) + 1}"
        more = [
            f"{between} {body} {later}::set_bit({bit}) %if bit_clear({bit})"
            for bit, body in enumerate(members.values())
        ]
        ended = f'"" %if {done}'
        self._rules[f"{later}::_"] = f"{later}::_: {' | '.join([ended, *more])}"
        begun = [f"{body} {later}::set_bit({bit})" for bit, body in enumerate(members.values())]
        empty = ['""'] if not required else []
        self._rules[f"{first}::_"] = f"{first}::_: {' | '.join([*empty, *begun])}"
        return f"{first}::0x0"

    def text(self, start: str) -> str:
        """Return the whole grammar with `start` as its start."""
        lines = [f"start: {start}"]
        for key, name in self._rules.items():
            lines.append(name if "::_: " in name else f"{name}{key}")
        return "\n".join(lines)


def quoted(text: str) -> str:
    """Return a text as a string of JSON, which is also one of Lark."""
    return json.dumps(text, ensure_ascii=False)


def required_of(schema: Mapping[str, Any]) -> list[str]:
    """Return the names of an object's required properties.

    Raises:
        WrongUseError: the schema has something else there.
    """
    required = schema.get("required") or []
    if not isinstance(required, list) or not all(isinstance(key, str) for key in required):
        raise WrongUseError(f"`required` in a tool's schema is a list of names, not {json.dumps(required)}")
    return required


def ordered_properties(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return an object's properties with the required ones first."""
    properties = schema.get("properties")
    properties = properties if isinstance(properties, dict) else {}
    required = required_of(schema)
    return {key: properties[key] for key in sorted(properties, key=lambda key: key not in required)}


BEYOND = {
    "anyOf",
    "oneOf",
    "allOf",
    "not",
    "if",
    "$ref",
    "patternProperties",
    "minProperties",
    "maxProperties",
    "propertyNames",
    "dependentRequired",
}
"""Keys by which more than its properties decides whether an object is valid."""


def _takes_nothing(schema: object) -> bool:
    """Return whether a tool has no parameters: no schema at all, or an empty list of properties.

    As with other tools, arguments that the schema does not name are not written.
    """
    if schema is None:
        return True
    if not isinstance(schema, dict) or schema.get("properties") != {} or BEYOND & schema.keys():
        return False
    return not schema.get("required") and schema.get("additionalProperties", False) is False


def _plain_properties(schema: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the properties, required ones first, if nothing but they decide which objects are valid."""
    properties = ordered_properties(schema)
    required = required_of(schema)
    extra = schema.get("additionalProperties")
    if BEYOND & schema.keys() or isinstance(extra, dict) or extra is True:
        return None
    if not properties or len(properties) > MOST_KEYS or any(key not in properties for key in required):
        return None
    return properties


def _json(schema: Mapping[str, Any]) -> str:
    return f"%json {json.dumps({**schema, 'x-guidance': STYLE}, ensure_ascii=False)}"
