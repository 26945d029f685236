"""Anthropic's Messages API: https://docs.anthropic.com/en/api/messages.

The model's blocks go back unchanged: while tools are in use, signed thinking must neither change nor be
missing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import anthropic
from anthropic.types import Message, TextBlock, ThinkingBlock, ToolUseBlock

from mcp_bench.clients.chat.provider import (
    CUT_OFF,
    HOOKS,
    ODD,
    REQUEST_SECONDS,
    ContextOverflowError,
    OfferedTool,
    Reply,
    Settings,
    ToolRequest,
    Usage,
    count,
    no_answer,
    parse_arguments,
    refusal,
    sendable,
    unreachable,
)
from mcp_bench.clients.connection import Outcome

MAX_TOKENS = 8192
"""The API requires a limit for each answer; all current models accept this one. It is without thinking."""

NO_TEXT = "The tool gave no reason."
"""For an error without a text: the API refuses an empty one."""

LAST_WITH_SAMPLING = "2023-06-01"
"""The API version of 2026-10-21, the SDK's default, refuses any temperature; this one accepts it."""


class AnthropicMessages:
    """One conversation; see `Provider`."""

    def __init__(self, settings: Settings, prompt: str, tools: Sequence[OfferedTool]) -> None:
        self._key = settings.api_key
        self._one_action = settings.one_action
        self._client = anthropic.AsyncAnthropic(
            api_key=settings.api_key,
            base_url=settings.base_url,
            max_retries=settings.max_retries,
            timeout=REQUEST_SECONDS,
            http_client=anthropic.DefaultAsyncHttpxClient(trust_env=settings.trust_env, event_hooks=HOOKS),
        )
        self.messages: list[dict[str, Any]] = [{"role": "user", "content": prompt}]
        self._request: dict[str, Any] = {
            "model": settings.model,
            "messages": self.messages,
            "max_tokens": settings.max_tokens or MAX_TOKENS + _budget(settings.thinking),
            "cache_control": {"type": "ephemeral"},  # each turn reads the earlier turns again
        }
        if tools:
            self._request["tools"] = [
                {"name": tool.name, "description": tool.description, "input_schema": tool.schema}
                for tool in tools
            ]
            if settings.one_action:
                self._request["tool_choice"] = {"type": "any", "disable_parallel_tool_use": True}
        if settings.system:
            self._request["system"] = settings.system
        if settings.temperature is not None:
            self._request["extra_body"] = {"temperature": settings.temperature}
            self._request["extra_headers"] = {"anthropic-version": LAST_WITH_SAMPLING}
        if settings.thinking:
            self._request["thinking"] = _thinking(settings.thinking)

    async def reply(self) -> Reply:
        try:
            message = await self._client.messages.create(**self._request)
        except anthropic.APIStatusError as error:
            raise refusal(error.status_code, None, error.message, self._key) from error
        except (anthropic.AnthropicError, ValueError) as error:
            raise unreachable(error, self._client.base_url) from error
        if not isinstance(message, Message) or not isinstance(message.content, list):
            raise no_answer(message, self._client.base_url)
        try:
            return self._read(message)
        except ODD as error:
            raise no_answer(message, self._client.base_url) from error

    def _read(self, message: Message) -> Reply:
        """Add the model's turn to the conversation.

        Raises:
            ContextOverflowError: it stopped at the end of its context window.
            AttributeError, LookupError, TypeError, ValueError: the answer has an unexpected shape.
        """
        if message.stop_reason == "model_context_window_exceeded":
            raise ContextOverflowError("the model stopped at the end of its context window")
        if message.content:  # an empty turn must not go back
            kept = message.content
            if self._one_action:
                kept = [block for block in kept if isinstance(block, ToolUseBlock)] or kept
            blocks = [sendable(block.model_dump(exclude_none=True)) for block in kept]
            self.messages.append({"role": "assistant", "content": blocks})
        calls = [_request(block) for block in message.content if isinstance(block, ToolUseBlock)]
        if calls and message.stop_reason == "max_tokens" and isinstance(message.content[-1], ToolUseBlock):
            calls[-1] = replace(calls[-1], problem=CUT_OFF)  # its input may lack something
        return Reply(
            text="\n".join(block.text for block in message.content if isinstance(block, TextBlock)) or None,
            reasoning="\n".join(
                block.thinking for block in message.content if isinstance(block, ThinkingBlock)
            )
            or None,
            calls=tuple(calls),
            usage=_usage(message),
            stopped=None if message.stop_reason in ("end_turn", "tool_use", None) else message.stop_reason,
        )

    def add_results(self, results: Sequence[tuple[ToolRequest, Outcome]]) -> None:
        blocks = [
            {
                "type": "tool_result",
                "tool_use_id": call.id,
                "content": outcome.text or (NO_TEXT if outcome.is_error else ""),
                "is_error": outcome.is_error,
            }
            for call, outcome in results
        ]
        self.messages.append({"role": "user", "content": blocks})

    def go_on(self, stored: Sequence[dict[str, Any]]) -> None:
        """Join messages of one role: the user's follow each other after results, or after an empty turn."""
        joined: list[dict[str, Any]] = []
        for message in (*stored, *self.messages):
            if not message["content"]:  # earlier versions stored such messages, which the API refuses
                continue
            if joined and joined[-1]["role"] == message["role"]:
                message = {**message, "content": _blocks(joined.pop()) + _blocks(message)}
            joined.append(message)
        self.messages[:] = joined


def _blocks(message: dict[str, Any]) -> list[dict[str, Any]]:
    content = message["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content)


def _request(block: ToolUseBlock) -> ToolRequest:
    arguments, problem = parse_arguments(block.input)
    return ToolRequest(block.id, block.name, arguments, problem)


def _budget(thinking: str | None) -> int:
    """Return the tokens for thinking, which must be fewer than those of the answer that they are part of."""
    return int(thinking) if thinking and thinking != "adaptive" else 0


def _thinking(choice: str) -> dict[str, Any]:
    if choice == "adaptive":
        return {"type": "adaptive", "display": "summarized"}
    return {"type": "enabled", "budget_tokens": _budget(choice)}


def _usage(message: Message) -> Usage:
    """Return the usage, which some gateways leave out.

    The API counts cache reads and writes separately from `input_tokens`.
    """
    usage: Any = message.usage
    if not isinstance(usage, anthropic.types.Usage) or (read := count(usage.input_tokens)) is None:
        return Usage()
    cached = count(usage.cache_read_input_tokens)
    total = read + (cached or 0) + (count(usage.cache_creation_input_tokens) or 0)
    return Usage(total, count(usage.output_tokens), cached)
