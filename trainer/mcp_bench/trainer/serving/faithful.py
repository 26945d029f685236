"""How requests and answers pass between the API and the model. Runs inside the engine's process.

`transformers serve` 5.23 leaves out of the history what was said before a call, and all thoughts, so the
model would be asked what it was never trained on. It answers 500 to a call that is not well formed, as if
the server were at fault, and it keeps greedy where a temperature is asked of a model saved as greedy.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

REASONING = ("reasoning_content", "reasoning")
MALFORMED = (ValueError, TypeError, KeyError, AttributeError)
"""What the parsers and what reads their results raise on calls that are none."""


def whole_messages(convert: Callable[..., list[dict[str, Any]]]) -> Callable[..., list[dict[str, Any]]]:
    """Return `convert` (OpenAI's messages to the chat template's) without its losses."""

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
    """Return `build` (a request's generation settings), which samples where a temperature is asked for."""

    def built(self: Any, body: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        settings = build(self, body, *args, **kwargs)
        if body.get("temperature"):
            settings.do_sample = True
        return settings

    return built


def openai_errors(build: Callable[..., Any]) -> Callable[..., Any]:
    """Return `build` (the app), whose errors have the form that OpenAI's clients show."""

    def built(*args: Any, **kwargs: Any) -> Any:
        from fastapi import HTTPException
        from fastapi.responses import JSONResponse

        app = build(*args, **kwargs)

        async def told(request: Any, error: HTTPException) -> JSONResponse:
            overflow = "maximum context length" in str(error.detail)
            document = {
                "message": str(error.detail),
                "type": "invalid_request_error",
                "code": "context_length_exceeded" if overflow else None,
            }
            return JSONResponse({"error": document}, status_code=error.status_code)

        app.add_exception_handler(HTTPException, told)
        return app

    return built


def is_call(value: Any) -> bool:
    """Whether a parsed tool call has a name, and an object as its arguments."""
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
    """Return `parse` (an answer's text, thoughts and calls), for which a broken call is text."""

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
    """A response parser for streams, which goes on with text where a call is broken."""

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
