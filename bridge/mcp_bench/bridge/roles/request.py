"""One request to the model of a role, in OpenAI's Chat Completions API.

https://platform.openai.com/docs/api-reference/chat; many servers and gateways speak it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from mcp_bench.bridge.roles.models import RoleModel
from mcp_bench.clients.chat.provider import parse_arguments, sendable, texts_of
from mcp_bench.plugins.output import ODD, overflowed
from mcp_bench.recorder.trajectory import Usage
from mcp_bench.servers.contracts import ChatMessage, ToolCall, ToolSpec

if TYPE_CHECKING:
    from openai import AsyncOpenAI
    from openai.types.chat import ChatCompletion

MAX_RETRIES = 3
"""After 429, 5xx and lost connections; the SDK waits between them, or as long as `retry-after` says."""
WORDS = 300
"""Characters of an endpoint's message that are kept."""


class NoAnswerError(Exception):
    """The model gave no answer; the text says why, without a key."""

    def __init__(self, text: str, *, too_long: bool = False, usage: Usage | None = None) -> None:
        """Say why.

        Args:
            text: why, for the operator.
            too_long: the conversation does not fit into the model's context.
            usage: what the endpoint counts nevertheless.
        """
        super().__init__(text)
        self.too_long = too_long
        self.usage = usage


class Answer(NamedTuple):
    message: ChatMessage
    usage: Usage
    answered_by: str


def client_for(model: RoleModel, seconds: float) -> AsyncOpenAI:
    """Return a client for the endpoint of a role. The caller closes it."""
    from openai import AsyncOpenAI  # importing it takes a second

    return AsyncOpenAI(api_key=model.key, base_url=model.base_url, max_retries=MAX_RETRIES, timeout=seconds)


async def request(
    client: AsyncOpenAI,
    model: RoleModel,
    messages: Sequence[ChatMessage],
    tools: Sequence[ToolSpec],
    seed: int,
) -> Answer:
    """Ask for the model's next message.

    Raises:
        NoAnswerError: the endpoint cannot be reached, refuses, or gives no whole answer.
    """
    import openai

    body: dict[str, Any] = {"model": model.model, "messages": sent(messages), "seed": seed}
    if tools:  # an empty list is refused
        body["tools"] = [
            {
                "type": "function",
                "function": {
                    "name": tool.name,
                    "description": tool.description,
                    "parameters": dict(tool.input_schema),
                },
            }
            for tool in tools
        ]
    try:
        completion = await client.chat.completions.create(**body)
    except openai.APITimeoutError as error:
        raise NoAnswerError("it did not answer in time") from error
    except openai.APIStatusError as error:
        words = clean(error.message.removeprefix(f"Error code: {error.status_code} - "), model.key)
        raise NoAnswerError(
            f"it answered {error.status_code}: {words}", too_long=overflowed(error.message)
        ) from error
    except (openai.OpenAIError, ValueError) as error:
        raise NoAnswerError(
            f"it cannot be reached: {clean(str(error.__cause__ or error), model.key)}"
        ) from error
    try:
        return read(completion)
    except ODD as error:
        usage = None
        with suppress(*ODD):
            usage = usage_of(completion)  # it costs what it costs
        text = f"its answer has an unexpected form: {str(completion)[:WORDS]}"
        raise NoAnswerError(text, usage=usage) from error


def sent(messages: Sequence[ChatMessage]) -> list[dict[str, Any]]:
    """Return messages in the API's form. A tool's result gets the id of the call before it with its name."""
    waiting: list[tuple[str, str]] = []
    found: list[dict[str, Any]] = []
    for number, message in enumerate(messages):
        one: dict[str, Any] = {"role": message.role, "content": message.content}
        if message.calls:
            ids = [f"call_{number}_{place}" for place in range(len(message.calls))]
            waiting = [(call.name, id_) for call, id_ in zip(message.calls, ids, strict=True)]
            one["tool_calls"] = [
                {
                    "id": id_,
                    "type": "function",
                    "function": {"name": call.name, "arguments": json.dumps(call.arguments)},
                }
                for call, id_ in zip(message.calls, ids, strict=True)
            ]
        elif message.role == "tool":
            mine = next((pair for pair in waiting if message.name in (None, pair[0])), None)
            if mine is not None:
                waiting.remove(mine)
            one["tool_call_id"] = mine[1] if mine else f"call_{number}"
        found.append(one)
    return found


def read(completion: ChatCompletion) -> Answer:
    """Return the message of a completion.

    Raises:
        NoAnswerError: it has none, or one that is cut or cannot be read.
    """
    choices = getattr(completion, "choices", None)
    if not choices:
        raise NoAnswerError(f"its answer is no chat completion: {str(completion)[:WORDS]}")
    message, finish = choices[0].message, choices[0].finish_reason
    usage = usage_of(completion)
    if finish == "length":
        raise NoAnswerError("its answer was cut at its limit of tokens", usage=usage)
    calls: list[ToolCall] = []
    for call in message.tool_calls or ():
        function: Any = getattr(call, "function", None)
        try:
            arguments, wrong = parse_arguments(function.arguments)
            if wrong is not None:
                raise ValueError(wrong)
            calls.append(ToolCall(name=function.name, arguments=arguments))
        except (AttributeError, ValueError) as error:
            text = f"it made a call that cannot be read: {str(call)[:WORDS]}"
            raise NoAnswerError(text, usage=usage) from error
    # half a character could not be sent back with the next question
    text = sendable(texts_of(message.content)[0] or message.refusal or "")
    if not text and not calls:
        raise NoAnswerError("its answer was empty", usage=usage)
    by = " ".join(filter(None, (completion.model, completion.system_fingerprint)))
    return Answer(ChatMessage(role="assistant", content=text, calls=tuple(calls)), usage, by)


def usage_of(completion: ChatCompletion) -> Usage:
    """Return what the endpoint counted, as far as it reports it."""
    usage = completion.usage
    if usage is None:
        return Usage(model_calls=1)
    details = usage.prompt_tokens_details
    return Usage(
        input_tokens=usage.prompt_tokens,
        output_tokens=usage.completion_tokens,
        cached_tokens=details.cached_tokens if details else None,
        model_calls=1,
        cost_usd=cost_in(usage.model_extra),
    )


def cost_in(extra: dict[str, Any] | None) -> float | None:
    """Return the cost in US dollars that some gateways report with the usage, as OpenRouter does."""
    cost = (extra or {}).get("cost")
    return float(cost) if isinstance(cost, int | float) and not isinstance(cost, bool) and cost >= 0 else None


def clean(text: str, key: str) -> str:
    """Return a text in one line, without the key."""
    return " ".join((text.replace(key, "***") if len(key) > 4 else text).split())[:WORDS]
