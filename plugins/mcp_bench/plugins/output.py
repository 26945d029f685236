"""What an agent left behind: its conversation, its usage, and its errors."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any, TypeGuard

from mcp_bench.plugins.contracts import Fault, McpServer, Transcript
from mcp_bench.recorder.trajectory import FunctionCall, Message, ToolCall, Usage

SESSION_ID = re.compile(r"[0-9a-f-]{36}")
ODD = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""The exceptions that reading an event of an unexpected shape can raise."""

OVERFLOW = re.compile(
    r"""
    context[ _-]?(length|window|size|limit|overflow)  # OpenAI's code, and most words: vLLM, SGLang, llama.cpp
    | (maximum|max)[ ](prompt[ ]length|context)       # xAI, Mistral
    | (prompt|input)[ ]is[ ]too[ ]long                # Anthropic, Bedrock
    | exceeds?[ ]the[ ]maximum[ ]number[ ]of[ ]tokens # Gemini
    | range[ ]of[ ]input[ ]length                     # DashScope
    | inputs?`?[ ]tokens[ ]\+                         # Text Generation Inference
    | too[ ]many[ ](input[ ])?tokens                  # Cohere
    | (input|prompt)\b.{0,40}\b(exceeds|longer[ ]than)\b.{0,60}\b(tokens?|length)\b
    """,
    re.IGNORECASE | re.VERBOSE,
)
CUT_SHORT = re.compile(
    r"Incomplete response returned, reason: (max_output_tokens|content_filter)|ContentFilterError"
)
"""The words of Codex and of opencode."""
UNAUTHORIZED = re.compile(r"\b401\b|authentication_error|\bunauthorized\b", re.IGNORECASE)
"""The status of a wrong key, or its name in OpenAI's and Anthropic's errors."""
RATE = re.compile(r"rate.?limit|tokens per|per (minute|day)|\bTPM\b|quota", re.IGNORECASE)


def is_session_id(text: object) -> TypeGuard[str]:
    """Return whether a text has the form of a UUID. Else it must not become part of a file's name."""
    return isinstance(text, str) and SESSION_ID.fullmatch(text) is not None


def _text(value: object) -> str:
    """Return a value that is a text. An agent's file can have anything in its place.

    Raises:
        TypeError: it is no text.
    """
    if not isinstance(value, str):
        raise TypeError(f"no text: {type(value).__name__}")
    return value


@dataclass
class _Turn:
    """A turn in its parts: joined at each one, a long turn would take quadratic time."""

    texts: list[str] = field(default_factory=list)
    reasoning: list[str] = field(default_factory=list)
    calls: list[tuple[str, ToolCall]] = field(default_factory=list)
    """With the rank of each."""


class Turns:
    """Assistant turns, each followed by the results of its calls.

    Agents run calls while the model still writes, so a result can arrive between the parts of a turn.
    Results are therefore kept by the id of their call, and by how often it came: some endpoints count calls
    from 0 in every answer.
    """

    def __init__(self) -> None:
        self._turns: list[_Turn] = []
        self._made: Counter[str] = Counter()
        """How many calls had an id so far."""
        self._last: dict[str, ToolCall] = {}
        """The last call with each id."""
        self._results: dict[tuple[str, int], Message] = {}
        self._open = False

    def text(self, text: str) -> None:
        if text:
            self._turn().texts.append(_text(text))

    def reasoning(self, text: str) -> None:
        if text:
            self._turn().reasoning.append(_text(text))

    def call(self, call_id: str, name: str, arguments: dict[str, Any], *, rank: str = "") -> None:
        """Add a call to the current turn.

        Args:
            rank: sorts the calls of a turn, for agents that report calls in the order in which they end.
        """
        call = ToolCall(id=call_id, function=FunctionCall(name=name, arguments=arguments))
        self._made[call_id] += 1
        self._last[call_id] = call
        self._turn().calls.append((rank, call))

    def result(self, call_id: str, text: str, *, is_error: bool = False) -> None:
        """Keep the first result of the last call with this id: later ones come from the agent itself."""
        message = Message(role="tool", content=text, tool_call_id=call_id, is_error=is_error)
        self._results.setdefault((call_id, max(1, self._made[call_id])), message)

    def find(self, call_id: str) -> ToolCall | None:
        """Return the last call with this id."""
        return self._last.get(call_id)

    def end(self) -> None:
        """Let the next text, reasoning or call begin a new turn."""
        self._open = False

    def messages(self) -> list[Message]:
        messages: list[Message] = []
        made: Counter[str] = Counter()
        for turn in self._turns:
            calls = []
            for rank, call in turn.calls:
                made[call.id] += 1
                calls.append((rank, call, self._results.get((call.id, made[call.id]))))
            calls.sort(key=itemgetter(0))
            messages.append(
                Message(
                    role="assistant",
                    content="\n\n".join(turn.texts) or None,
                    reasoning="\n\n".join(turn.reasoning) or None,
                    tool_calls=[call for _, call, _ in calls],
                )
            )
            messages += [
                result.model_copy(update={"name": call.function.name}) for _, call, result in calls if result
            ]
        return messages

    def _turn(self) -> _Turn:
        if not self._open:
            self._turns.append(_Turn())
            self._open = True
        return self._turns[-1]


@dataclass
class Session:
    """What an agent's files say about one episode. Each agent's session adds what its `fault` needs."""

    turns: Turns = field(default_factory=Turns)
    usage: Usage | None = None
    """Sum over all requests to the model."""
    model: str | None = None

    def answer(self, messages: Sequence[Message]) -> str | None:
        """Return the answer that the `messages` of this session end with."""
        return final_answer(messages)

    def transcript(self, fault: Fault | None = None) -> Transcript:
        messages = self.turns.messages()
        return Transcript(
            messages=messages,
            answer=self.answer(messages),
            usage=self.usage,
            model=self.model,
            fault=fault,
        )


def plus(
    total: Usage | None,
    input_tokens: int,
    output_tokens: int,
    cached_tokens: int = 0,
    cost_usd: float | None = None,
) -> Usage:
    """Return `total` with one more request to the model."""
    total = total or Usage()
    return Usage(
        input_tokens=(total.input_tokens or 0) + input_tokens,
        output_tokens=(total.output_tokens or 0) + output_tokens,
        cached_tokens=(total.cached_tokens or 0) + cached_tokens,
        model_calls=(total.model_calls or 0) + 1,
        cost_usd=total.cost_usd if cost_usd is None else (total.cost_usd or 0) + cost_usd,
    )


def endpoint_fault(detail: str) -> Fault:
    """Return the fault for a failed request to the model: a missing login if the endpoint refused the key."""
    return Fault(kind="login_missing" if UNAUTHORIZED.search(detail) else "endpoint_error", detail=detail)


def final_answer(messages: Sequence[Message]) -> str | None:
    """Return the text of the last message, or None if the agent was stopped in the middle of its work."""
    last = messages[-1] if messages else None
    return last.content if last and last.role == "assistant" and not last.tool_calls else None


def overflowed(message: str) -> bool:
    """Return whether a model endpoint's error means that the conversation is too long for the model.

    Each endpoint has its own wording. An overflow is the agent's own failure: the agent chose what went into
    the conversation and what to leave out. A limit of tokens per minute is not an overflow.
    """
    return bool(OVERFLOW.search(message)) and not RATE.search(message)


def cut_short(message: str) -> bool:
    """Return whether an agent's error means that the model ended its turn: at a limit of tokens, by a filter.

    The endpoint has answered, so that is the agent's own failure, as a refusal in words is.
    """
    return CUT_SHORT.search(message) is not None


def not_connected(servers: Iterable[Any], server: McpServer) -> Fault | None:
    """Return a fault if an agent lists `server` with a status other than connected.

    Args:
        servers: objects with `name` and `status`.
    """
    for known in servers:
        with suppress(*ODD):
            if known["name"] == server.name and known["status"] != "connected":
                return Fault(kind="server_not_connected", detail=f"{server.name}: {known['status']}")
    return None


def not_approved(denied: Collection[str]) -> Fault | None:
    """Return a fault if the agent was not allowed to call some of the server's tools."""
    return Fault(kind="approval_needed", detail=f"denied: {', '.join(sorted(denied))}") if denied else None
