"""Turn the API's messages into a prompt, with the chat template of the checkpoint."""

from __future__ import annotations

import json
from typing import Any

from mcp_bench.trainer.chat.harmony import Harmony
from mcp_bench.trainer.engine.api.chat_request import ChatRequest, Message, text_of
from mcp_bench.trainer.engine.api.errors import ApiError
from mcp_bench.trainer.engine.load import Loaded

REASONING = ("reasoning_content", "reasoning")
TAIL = 16
"""Tokens at a prompt's end in which a template may open a thought."""


def make_prompt(loaded: Loaded, request: ChatRequest) -> tuple[list[int], bool]:
    """Return a request's prompt, and whether it ends inside of a thought.

    Nothing of the history is left out: a model was trained on its whole turns, with the text before a call
    and the reasoning, as far as the template renders them.

    Raises:
        ApiError: the template refuses the messages, or makes nothing of them.
    """
    made = _applied(loaded, request, request.messages, generation=True, tokenize=True)
    tokens = [int(token) for token in made]
    if not tokens:  # the model would fail, and with it all answers that are being decoded
        raise ApiError("the chat template makes an empty prompt of these messages", param="messages")
    return tokens, opens_thought(loaded, tokens)


def opens_thought(loaded: Loaded, tokens: list[int]) -> bool:
    """Return whether a prompt ends inside of a thought."""
    return loaded.parser.opened(loaded.tokenizer.decode(tokens[-TAIL:], skip_special_tokens=False))


def render(loaded: Loaded, request: ChatRequest, messages: list[Message], *, generation: bool) -> str:
    """Return messages as the text that the chat template makes of them.

    Args:
        loaded: the checkpoint.
        request: the request with its tools and the template's arguments.
        messages: all of its messages, or the first ones.
        generation: whether an answer is to begin at the end.

    Raises:
        ApiError: the template refuses the messages.
    """
    return str(_applied(loaded, request, messages, generation=generation, tokenize=False))


def _applied(
    loaded: Loaded, request: ChatRequest, messages: list[Message], *, generation: bool, tokenize: bool
) -> Any:
    rendered = [_rendered(message, loaded) for message in messages]
    try:
        return loaded.tokenizer.apply_chat_template(
            rendered,
            tools=request.offered or None,
            add_generation_prompt=generation,
            tokenize=tokenize,
            return_dict=False,
            **(request.chat_template_kwargs or {}),
        )
    except Exception as error:  # templates raise anything
        raise ApiError(f"the chat template fails on these messages: {error}", param="messages") from error


def _rendered(message: Message, loaded: Loaded) -> dict[str, Any]:
    """Return a message as templates expect it: text in one string, arguments as objects."""
    made = message.model_dump(exclude_unset=True)
    made["content"] = text_of(message.content)
    if message.role == "developer" and "developer" not in str(loaded.tokenizer.chat_template):
        made["role"] = "system"
    thought = next((made[key] for key in REASONING if isinstance(made.get(key), str) and made[key]), None)
    if thought is not None:
        made["reasoning_content"] = thought
    if not message.tool_calls:
        made.pop("tool_calls", None)
    else:
        for call in made["tool_calls"]:
            call["function"]["arguments"] = _arguments(call["function"].get("arguments"))
    if isinstance(loaded.parser.calls, Harmony) and message.role == "assistant":
        _as_harmony(made, thought)
    return made


def _as_harmony(made: dict[str, Any], thought: str | None) -> None:
    """Name the thought as gpt-oss's template does. It takes one text before a call: they are joined."""
    if thought is None:
        return
    made["thinking"] = thought
    if made.get("tool_calls") and made["content"]:
        made["thinking"] = f"{thought}\n{made['content']}"
        made["content"] = ""


def _arguments(arguments: Any) -> Any:
    if not isinstance(arguments, str):
        return arguments or {}
    try:
        return json.loads(arguments) if arguments.strip() else {}
    except ValueError:
        return arguments
