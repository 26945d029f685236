"""OpenAI's Chat Completions API, which many servers speak (vLLM, llama.cpp, gateways).

https://platform.openai.com/docs/api-reference/chat. Reasoning is not part of it, but many servers send
`reasoning_content` or `reasoning`. It goes back under the same name, since models that think between tool
calls expect it. Gateways also send signed or encrypted parts of it (`SIGNED`), without which some models
refuse the next request.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

import httpcore2  # noqa: F401 - httpx2 imports it with the first client
import httpx2
import openai
from openai.types import CompletionUsage
from openai.types.chat import ChatCompletion, ChatCompletionMessage
from openai.types.completion_usage import PromptTokensDetails

from mcp_bench.clients.chat.provider import (
    CUT_OFF,
    HOOKS,
    ODD,
    REQUEST_SECONDS,
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
    texts_of,
    unreachable,
)
from mcp_bench.clients.connection import Outcome

REASONING = ("reasoning_content", "reasoning")
SIGNED = ("reasoning_details", "thinking_blocks")
"""Lists of OpenRouter and MiniMax, and of LiteLLM."""
TLS = httpx2.create_ssl_context()
"""For all clients: reading the certificates takes 30 ms."""


class OpenAIChat:
    """One conversation; see `Provider`."""

    def __init__(self, settings: Settings, prompt: str, tools: Sequence[OfferedTool]) -> None:
        self._key = settings.api_key
        self._one_action = settings.one_action
        self._client = openai.AsyncOpenAI(
            api_key=settings.api_key,
            base_url=settings.base_url,
            max_retries=settings.max_retries,
            timeout=REQUEST_SECONDS,
            http_client=openai.DefaultAsyncHttpxClient(
                verify=TLS, trust_env=settings.trust_env, event_hooks=HOOKS
            ),
        )
        system = [{"role": "system", "content": settings.system}] if settings.system else []
        self.messages: list[dict[str, Any]] = [*system, {"role": "user", "content": prompt}]
        self._request: dict[str, Any] = {"model": settings.model, "messages": self.messages}
        if tools:  # an empty list is refused
            self._request["tools"] = [
                {
                    "type": "function",
                    "function": {
                        "name": tool.name,
                        "description": tool.description,
                        "parameters": tool.schema,
                    },
                }
                for tool in tools
            ]
            if settings.one_action:
                self._request |= {"tool_choice": "required", "parallel_tool_calls": False}
        if settings.temperature is not None:
            self._request["temperature"] = settings.temperature
        if settings.max_tokens is not None:
            # OpenAI renamed it; all other servers know the old name
            own = (urlsplit(str(self._client.base_url)).hostname or "").endswith("openai.com")
            self._request["max_completion_tokens" if own else "max_tokens"] = settings.max_tokens

    async def reply(self) -> Reply:
        try:
            completion = await self._client.chat.completions.create(**self._request)
        except openai.APIStatusError as error:
            raise refusal(error.status_code, error.code, error.message, self._key) from error
        except (openai.OpenAIError, ValueError) as error:
            raise unreachable(error, self._client.base_url) from error
        if not isinstance(completion, ChatCompletion):
            raise no_answer(completion, self._client.base_url)
        try:
            return self._read(completion)
        except ODD as error:
            raise no_answer(completion, self._client.base_url) from error

    def _read(self, completion: ChatCompletion) -> Reply:
        """Add the model's turn to the conversation.

        Raises:
            ContextOverflowError, ClientError: it is an error of a gateway, which sends them with status 200.
            AttributeError, LookupError, TypeError, ValueError: the answer has an unexpected shape.
        """
        choice = completion.choices[0] if completion.choices else None
        failed = choice is None or str(choice.finish_reason) == "error"  # a gateway's word: the API has none
        if choice is None or failed or not isinstance(choice.message, ChatCompletionMessage):
            why = ((choice or completion).model_extra or {}).get("error")
            if isinstance(why, dict) and isinstance(why.get("code"), int):
                raise refusal(why["code"], None, str(why.get("message")), self._key)
            raise no_answer(why or completion, self._client.base_url)
        calls = self._add(choice.message, cut_off=choice.finish_reason == "length")
        text, thoughts = texts_of(choice.message.content)
        return Reply(
            text=text or choice.message.refusal or None,
            reasoning=next((text for key in REASONING if (text := _extra(choice.message, key))), thoughts),
            calls=calls,
            usage=_usage(completion.usage),
            stopped=None if choice.finish_reason in ("stop", "tool_calls", None) else choice.finish_reason,
        )

    def add_results(self, results: Sequence[tuple[ToolRequest, Outcome]]) -> None:
        self.messages += [
            {"role": "tool", "tool_call_id": call.id, "content": outcome.text} for call, outcome in results
        ]

    def go_on(self, stored: Sequence[dict[str, Any]]) -> None:
        self.messages[:] = [*stored, self.messages[-1]]

    def _add(self, message: ChatCompletionMessage, *, cut_off: bool) -> tuple[ToolRequest, ...]:
        """Add the model's turn to the conversation unchanged; return its calls."""
        content = message.content
        if content is None and not message.tool_calls:
            content = message.refusal or ""  # the API refuses a turn with nothing in it
        turn: dict[str, Any] = {"role": "assistant", "content": content}
        turn |= {key: text for key in REASONING if (text := _extra(message, key))}
        turn |= {key: parts for key in SIGNED if (parts := (message.model_extra or {}).get(key))}
        if self._one_action and message.tool_calls:
            turn = {"role": "assistant", "content": None}
        requests = []
        sent = [call.model_dump(exclude_none=True, warnings=False) for call in message.tool_calls or ()]
        for number, call in enumerate(sent):
            if not call.get("id"):  # some servers leave it out
                call["id"] = f"call_{len(self.messages)}_{number}"
            function = call.get("function") or {}
            arguments, problem = parse_arguments(function.get("arguments"))
            if cut_off and not function.get("arguments"):
                problem = CUT_OFF  # other arguments that are cut off are no JSON
            if function and (problem or not isinstance(function.get("arguments"), str)):
                # many servers parse arguments that come back, and refuse invalid ones
                function["arguments"] = json.dumps(arguments)
            requests.append(ToolRequest(call["id"], function.get("name") or "", arguments, problem))
        if sent:
            turn["tool_calls"] = sent
        self.messages.append(sendable(turn))
        return tuple(requests)


def _extra(message: ChatCompletionMessage, key: str) -> str | None:
    value = (message.model_extra or {}).get(key)
    return value if isinstance(value, str) and value else None


def _usage(usage: CompletionUsage | None) -> Usage:
    """Return the usage, which some servers leave out, or send in another form."""
    if not isinstance(usage, CompletionUsage):
        return Usage()
    details = usage.prompt_tokens_details
    cached = details.cached_tokens if isinstance(details, PromptTokensDetails) else None
    return Usage(count(usage.prompt_tokens), count(usage.completion_tokens), count(cached))


def _prepare() -> None:
    """Let the SDK import and build now what it would with its first request, for 100 ms of CPU.

    Each episode's client is a fork of a process that has imported this module (`fork_server.py`), and would
    do it again. The request goes nowhere.
    """
    call = {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    turn = {"role": "assistant", "content": None, "tool_calls": [call]}
    answer = {
        "id": "1",
        "object": "chat.completion",
        "created": 0,
        "model": "m",
        "choices": [{"index": 0, "finish_reason": "tool_calls", "message": turn}],
        "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
    }
    request: dict[str, Any] = {
        "model": "m",
        "messages": [
            {"role": "system", "content": ""},
            {"role": "user", "content": ""},
            turn,
            {"role": "tool", "tool_call_id": "1", "content": ""},
        ],
        "tools": [{"type": "function", "function": {"name": "f", "description": "", "parameters": {}}}],
    }
    nowhere = httpx2.MockTransport(lambda _: httpx2.Response(200, json=answer))
    with httpx2.Client(transport=nowhere) as http:
        client = openai.OpenAI(api_key="none", base_url="http://localhost", http_client=http, max_retries=0)
        client.chat.completions.create(**request)


_prepare()
