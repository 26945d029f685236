"""Forms of calls that are JSON: `hermes`, `llama3_json`, `mistral`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from mcp_bench.trainer.chat.answer import Call, MalformedCallError, call_of, read_json_at
from mcp_bench.trainer.chat.grammar import Pieces, quoted

Tools = Sequence[Mapping[str, Any]]


class Hermes:
    """`<tool_call>{"name": ..., "arguments": {...}}</tool_call>`: Qwen 2.5, Qwen 3, our own template."""

    name = "hermes"
    opening, closing = "<tool_call>", "</tool_call>"
    marks: tuple[str, ...] = (opening, closing)

    def split(self, text: str, tools: Tools) -> tuple[str, tuple[Call, ...]]:
        calls, spans, at = [], [], text.find(self.opening)
        while at >= 0:
            value, end = read_json_at(text, at + len(self.opening))
            calls.append(call_of(value))
            end = skip_blanks(text, end)
            if text.startswith(self.closing, end):
                end += len(self.closing)
            elif end < len(text) and not text.startswith(self.opening, end):
                raise MalformedCallError("text follows a call that has not ended")
            spans.append((at, end))
            at = text.find(self.opening, end)
        return outside(text, spans), tuple(calls)

    def begin(self, text: str) -> int | None:
        return found(text, self.opening)

    def held(self, text: str) -> int:
        return before_mark(text, self.opening)

    def rules(self, tools: Tools, pieces: Pieces) -> tuple[str, str | None]:
        return (
            f'{pieces.literal(self.opening)} "\\n"? ({either(tools, pieces, "arguments")}) "\\n"? '
            f"{pieces.literal(self.closing)}",
            '"\\n"?',
        )


class Llama3Json:
    """`{"name": ..., "parameters": {...}}` as the whole answer, with `;` between calls: Llama 3."""

    name = "llama3_json"
    tag = "<|python_tag|>"
    marks: tuple[str, ...] = (tag,)

    def split(self, text: str, tools: Tools) -> tuple[str, tuple[Call, ...]]:
        at = self.begin(text)
        if at is None:
            return text, ()
        calls, end = [], skip_blanks(text, at)
        if text.startswith(self.tag, end):
            end += len(self.tag)
        while end < len(text):
            value, end = read_json_at(text, end)
            calls.append(call_of(value, ("parameters", "arguments")))
            end = skip_blanks(text, end)
            if end < len(text):
                if text[end] != ";":
                    raise MalformedCallError("text follows a call")
                end = skip_blanks(text, end + 1)
        return "", tuple(calls)

    def begin(self, text: str) -> int | None:
        begun = text.lstrip()
        return len(text) - len(begun) if begun.startswith(("{", self.tag)) else None

    def held(self, text: str) -> int:
        begun = text.lstrip()
        return 0 if self.begin(text) is not None or self.tag.startswith(begun) else len(text)

    def rules(self, tools: Tools, pieces: Pieces) -> tuple[str, str | None]:
        return either(tools, pieces, "parameters"), '"; "'


class Mistral:
    """`[TOOL_CALLS]`, and then a list of calls, or `name[ARGS]{...}` (from tokenizer version 11 on)."""

    name = "mistral"
    mark, args, identity = "[TOOL_CALLS]", "[ARGS]", "[CALL_ID]"
    marks: tuple[str, ...] = (mark, args, identity)

    def __init__(self, *, listed: bool) -> None:
        """Write the older form with a list, or the newer one. Both are read."""
        self._listed = listed

    def split(self, text: str, tools: Tools) -> tuple[str, tuple[Call, ...]]:
        at = text.find(self.mark)
        if at < 0:
            return text, ()
        calls: list[Call] = []
        for part in text[at:].split(self.mark)[1:]:
            if part.lstrip()[:1] in ("[", "{"):
                value, end = read_json_at(part, 0)
                calls += [call_of(one) for one in (value if isinstance(value, list) else [value])]
            else:
                named = re.match(r"\s*([^\s\[{]+)\s*(?:\[CALL_ID\][^\[{]*)?(?:\[ARGS\])?", part)
                if named is None:
                    raise MalformedCallError("a call needs a name")
                arguments, end = read_json_at(part, named.end())
                calls.append(call_of({"name": named[1], "arguments": arguments}))
            if part[end:].strip():
                raise MalformedCallError("text follows a call")
        return text[:at].rstrip(), tuple(calls)

    def begin(self, text: str) -> int | None:
        return found(text, self.mark)

    def held(self, text: str) -> int:
        return before_mark(text, self.mark)

    def rules(self, tools: Tools, pieces: Pieces) -> tuple[str, str | None]:
        mark = pieces.literal(self.mark)
        if self._listed:
            one = pieces.rule(either(tools, pieces, "arguments"))
            return f'{mark} " "? "[" {one} "]"', None
        arguments = pieces.literal(self.args)
        each = [
            f"{pieces.literal(name)} {arguments} {pieces.arguments(schema)}"
            for name, schema in named_schemas(tools)
        ]
        return f"{mark} ({' | '.join(each)})", ""


def either(tools: Tools, pieces: Pieces, key: str) -> str:
    """Return the expression of a JSON object that calls one of the tools."""
    calls = [
        f'"{{\\"name\\"" {pieces.colon} {quoted(quoted(name))} {pieces.comma} "\\"{key}\\"" {pieces.colon} '
        f'{pieces.arguments(schema)} "}}"'
        for name, schema in named_schemas(tools)
    ]
    return " | ".join(calls)


def named_schemas(tools: Tools) -> list[tuple[str, Any]]:
    """Return name and parameters' schema of each tool."""
    return [(tool["function"]["name"], tool["function"].get("parameters")) for tool in tools]


def outside(text: str, spans: Sequence[tuple[int, int]]) -> str:
    """Return the text before the first span, and below it what stands between and after the spans."""
    if not spans:
        return text
    parts = [text[: spans[0][0]].rstrip()]
    ends = [*(start for start, _ in spans[1:]), len(text)]
    parts += [text[end:start].strip() for (_, end), start in zip(spans, ends, strict=True)]
    return "\n".join(part for part in parts if part.strip())


def found(text: str, mark: str) -> int | None:
    """Return the index of the first `mark`."""
    at = text.find(mark)
    return at if at >= 0 else None


def before_mark(text: str, mark: str) -> int:
    """Return the length of the text before the first `mark`, or before its beginning at the end."""
    if mark in text:
        return text.index(mark)
    part = next((n for n in range(min(len(mark) - 1, len(text)), 0, -1) if text.endswith(mark[:n])), 0)
    return len(text) - part


def skip_blanks(text: str, at: int) -> int:
    """Return the index of the first character from `at` on that is not white space."""
    while at < len(text) and text[at].isspace():
        at += 1
    return at
