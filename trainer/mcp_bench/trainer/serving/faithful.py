"""Fix how `transformers serve` converts requests and answers. Runs inside the engine's process.

`transformers serve` 5.23 drops reasoning, and text before a tool call, from the history, so the model would
get prompts it was not trained on. It answers 500 to a malformed call, as if the server had failed. And it
ignores a request's temperature if the model was saved as greedy.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

REASONING = ("reasoning_content", "reasoning")
MALFORMED = (ValueError, TypeError, KeyError, AttributeError)
"""Exceptions raised by parsing malformed calls."""


def whole_messages(convert: Callable[..., list[dict[str, Any]]]) -> Callable[..., list[dict[str, Any]]]:
    """Wrap `convert` (OpenAI messages to template messages) so that it keeps all text and reasoning."""

    def converted(messages: list[dict[str, Any]], modality: Any) -> list[dict[str, Any]]:
        result = []
        for message in messages:
            kept = {key: value for key, value in message.items() if key != "tool_calls" or value}
            parsed = convert([kept], modality)[0]
            if "tool_calls" in kept and kept.get("content"):
                text = {key: value for key, value in kept.items() if key != "tool_calls"}
                parsed["content"] = convert([text], modality)[0]["content"]
            if thought := next((kept[key] for key in REASONING if kept.get(key)), None):
                parsed["reasoning_content"] = thought
            result.append(parsed)
        return result

    return converted


def sampled_when_asked(build: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap `build` (the generation settings of a request) so that a temperature enables sampling."""

    def built(self: Any, body: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        settings = build(self, body, *args, **kwargs)
        if body.get("temperature"):
            settings.do_sample = True
        return settings

    return built


def openai_errors(build: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap `build` (the app) so that errors have the form that OpenAI's clients expect."""

    def built(*args: Any, **kwargs: Any) -> Any:
        from fastapi import HTTPException
        from fastapi.responses import JSONResponse

        app = build(*args, **kwargs)

        async def error_response(request: Any, error: HTTPException) -> JSONResponse:
            overflow = "maximum context length" in str(error.detail)
            document = {
                "message": str(error.detail),
                "type": "invalid_request_error",
                "code": "context_length_exceeded" if overflow else None,
            }
            return JSONResponse({"error": document}, status_code=error.status_code)

        app.add_exception_handler(HTTPException, error_response)
        return app

    return built


def is_call(value: Any) -> bool:
    """Return whether a parsed tool call has a name and an object as arguments."""
    function = value.get("function") if isinstance(value, dict) else None
    if not isinstance(function, dict) or not isinstance(function.get("name"), str):
        return False
    arguments = function.get("arguments")
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments)
        except ValueError:
            return False
    return isinstance(arguments, dict)


def text_when_malformed(parse: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap `parse` (text, reasoning and calls of an answer) so that malformed calls become text."""

    def parsed(*args: Any, cleaned_content: str = "", **kwargs: Any) -> Any:
        try:
            content, reasoning, calls = parse(*args, cleaned_content=cleaned_content, **kwargs)
            functions = [{"name": call.name, "arguments": call.arguments} for call in calls or ()]
            sound = all(is_call({"function": function}) for function in functions)
        except MALFORMED:
            sound = False
        return (content, reasoning, calls) if sound else (cleaned_content, None, None)

    return parsed


class TolerantParser:
    """A response parser for streams that passes malformed calls on as text."""

    def __init__(self, parser: Any) -> None:
        self.initial_events = parser.initial_events
        self._parser = parser
        self._broken = False
        self._fed = ""

    def feed(self, text: str) -> list[dict[str, Any]]:
        self._fed += text
        if self._broken:
            return [_text(text)]
        try:
            return [_sound(event) for event in self._parser.feed(text)]
        except MALFORMED:
            self._broken = True
            return [_text(self._fed[max(0, self._fed.rfind("<tool_call>")) :])]

    def finalize(self) -> tuple[Any, list[dict[str, Any]]]:
        if self._broken:
            return {}, []
        try:
            message, events = self._parser.finalize()
        except MALFORMED:
            return {}, [_text(self._fed[max(0, self._fed.rfind("<tool_call>")) :])]
        return message, [_sound(event) for event in events]


def _sound(event: dict[str, Any]) -> dict[str, Any]:
    closes_call = event["type"] == "region_close" and event.get("field") == "tool_calls"
    return event if not closes_call or is_call(event.get("value")) else _text(json.dumps(event.get("value")))


def _text(text: str) -> dict[str, Any]:
    return {"type": "region_chunk", "field": "content", "text": text}
