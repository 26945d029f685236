"""OpenAI's harmony form, in which gpt-oss writes: `openai`.

https://cookbook.openai.com/articles/openai-harmony. An answer is a chain of messages. Each has a header
with a channel and perhaps a recipient: `analysis` is reasoning, `final` and `commentary` are content, and a
message to `functions.NAME` is a call.
"""

from __future__ import annotations

import re

from mcp_bench.trainer.chat.answer import Answer, Call, MalformedCallError, call_of, read_json
from mcp_bench.trainer.chat.grammar import Pieces
from mcp_bench.trainer.chat.json_calls import Tools, named_schemas

START, CHANNEL, MESSAGE, CONSTRAIN = "<|start|>", "<|channel|>", "<|message|>", "<|constrain|>"
ENDS = ("<|end|>", "<|call|>", "<|return|>")
RECIPIENT = re.compile(r"to=functions\.([^\s<]+)")
MARK = "to=functions."


class Harmony:
    """Reads chains of messages."""

    name = "openai"
    marks: tuple[str, ...] = (START, CHANNEL, MESSAGE, CONSTRAIN, *ENDS)

    def parse(self, text: str, tools: Tools = ()) -> Answer:
        """Return a finished answer's parts. A malformed call is content, as the model wrote it."""
        content: list[str] = []
        reasoning: list[str] = []
        calls: list[Call] = []
        for header, body in _messages(text):
            recipient = RECIPIENT.search(header)
            if body is None:
                content.append(header)
            elif recipient is not None and tools:
                try:
                    calls.append(call_of({"name": recipient[1], "arguments": read_json(body)}))
                except MalformedCallError:
                    content.append(header + body)
            elif _channel(header) == "analysis":
                reasoning.append(body)
            else:
                content.append(body)
        return Answer("\n".join(content), "\n".join(reasoning) or None, tuple(calls))

    def split(self, text: str, tools: Tools) -> tuple[str, tuple[Call, ...]]:
        """Return the text outside of calls, and the calls; see `CallFormat`."""
        parts = self.parse(text, tools)
        return parts.content, parts.calls

    def certain(self, text: str, tools: Tools) -> tuple[str, str]:
        """Return reasoning and content that no later token changes; see `AnswerParser.certain`."""
        if MESSAGE not in text:
            return "", ""  # the first header, or text without any
        text = _without_begun_mark(text, self.marks)
        reasoning: list[str] = []
        content: list[str] = []
        for header, body in _messages(text):
            if body is None or (RECIPIENT.search(header) and tools):
                break
            (reasoning if _channel(header) == "analysis" else content).append(body)
        return "\n".join(reasoning), "\n".join(content)

    def begin(self, text: str) -> int | None:
        """Return where the first call begins: at its recipient, in a header."""
        at = text.find(MARK)
        while at >= 0:
            header = max(text.rfind(one, 0, at) for one in (START, CHANNEL))
            if text.rfind(MESSAGE, 0, at) <= header:
                return at
            at = text.find(MARK, at + 1)
        return None

    def held(self, text: str) -> int:
        """Return the length of the certain text; see `CallFormat`."""
        at = self.begin(text)
        return len(text) if at is None else at

    def rules(self, tools: Tools, pieces: Pieces) -> tuple[str, str | None]:
        """Return the expressions of the grammar; see `CallFormat`. The channel may stand before or after."""
        channel, message, constrain = (pieces.literal(one) for one in (CHANNEL, MESSAGE, CONSTRAIN))
        before = f'({channel} "commentary")?'
        after = f'{before} (" "? {constrain}? "json")? {message}'
        each = [
            f"{pieces.literal(MARK + name)} {after} {pieces.arguments(schema)}"
            for name, schema in named_schemas(tools)
        ]
        return f"({' | '.join(each)})", None


def _messages(text: str) -> list[tuple[str, str | None]]:
    """Return header and body of each message; None: a header without a body.

    The first header begins after `<|start|>assistant`. Text without any marks is a message without a header.
    """
    if not any(mark in text for mark in (CHANNEL, MESSAGE)) and MARK not in text:
        return [("", text)] if text else []
    found: list[tuple[str, str | None]] = []
    for part in re.split("|".join(map(re.escape, (*ENDS, START))), text):
        header, mark, body = part.partition(MESSAGE)
        if mark or header.strip() not in ("", "assistant"):
            found.append((header, body if mark else None))
    return found


def _without_begun_mark(text: str, marks: tuple[str, ...]) -> str:
    """Return the text without an end that may become a mark."""
    for length in range(min(len(text), max(map(len, marks)) - 1), 0, -1):
        if any(mark.startswith(text[-length:]) and mark != text[-length:] for mark in marks):
            return text[:-length]
    return text


def _channel(header: str) -> str:
    return header.partition(CHANNEL)[2].strip().partition(" ")[0]
