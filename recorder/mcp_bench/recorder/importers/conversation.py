"""Convert messages and tools of chat APIs to our `Message` and `ToolSchema`."""

from __future__ import annotations

import itertools
import json
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from mcp_bench.recorder.importers.attempt import RowError
from mcp_bench.recorder.importers.json_rows import parse
from mcp_bench.recorder.trajectory import FunctionCall, FunctionSchema, Message, ToolCall, ToolSchema
from mcp_bench.servers.contracts import Image

_ROLES = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant", "tool": "tool"}


def chat_messages(rows: Any, failed: Iterable[str] = ()) -> list[Message]:
    """Convert messages of the Chat Completions API and its variants.

    Arguments can be an object or a JSON string. Calls can be nested (`function.name`), flat (`name`),
    or JSON strings of either. Content can be text or parts.

    Args:
        rows: the messages.
        failed: ids of the calls whose results are errors.

    Raises:
        RowError: a message is malformed.
    """
    if not isinstance(rows, list):
        raise RowError("messages is not a list")
    errors = set(failed)
    messages = []
    for place, row in enumerate(rows):
        if not isinstance(row, dict):
            raise RowError(f"message {place} is not a JSON object")
        try:
            messages.append(_message(row, errors))
        except RowError as error:
            raise RowError(f"message {place}: {error}") from error
    return paired(messages)


def tool_schemas(rows: Any) -> list[ToolSchema]:
    """Convert tools in OpenAI's form, flat, or as MCP lists them, or a JSON string of such a list."""
    if isinstance(rows, str):
        rows = parse(rows.encode()) if rows.strip() else []
    return [_tool(row if isinstance(row, dict) else parse(str(row).encode())) for row in rows or []]


def tool_call(call_id: Any, name: Any, arguments: Any) -> ToolCall:
    """Return a call. `arguments` can be an object, a JSON string, or None.

    Raises:
        RowError: the name is missing, or the arguments are not an object.
    """
    if not isinstance(name, str) or not name:
        raise RowError("a call has no tool name")
    return ToolCall(id=str(call_id or ""), function=FunctionCall(name=name, arguments=_arguments(arguments)))


def text_of(content: Any) -> str | None:
    """Return the text of a message's content. Parts are joined by newlines; media become placeholders."""
    if content is None or isinstance(content, str):
        return content or None
    if isinstance(content, list):
        return "\n".join(part for part in map(_part, content) if part) or None
    return json.dumps(content, ensure_ascii=False)


def paired(messages: Sequence[Message]) -> list[Message]:
    """Make call ids unique and give each result the id and the tool of its call.

    A result without an id belongs to the oldest open call. One whose id no call has belongs to the oldest
    open call without an id.

    Raises:
        RowError: a result belongs to no open call.
    """
    taken: set[str] = set()
    fresh = (f"call_{number}" for number in itertools.count(1))
    reserved = {call.id for message in messages for call in message.tool_calls}
    waiting: deque[tuple[str, ToolCall]] = deque()
    found: list[Message] = []
    for place, message in enumerate(messages):
        if message.tool_calls:
            calls = []
            for call in message.tool_calls:
                unique = call.id
                if not unique or unique in taken:
                    unique = next(name for name in fresh if name not in reserved)
                taken.add(unique)
                calls.append(call.model_copy(update={"id": unique}))
                waiting.append((call.id, calls[-1]))
            message = message.model_copy(update={"tool_calls": calls})
        elif message.role == "tool":
            if not waiting:
                raise RowError(f"message {place} is a tool result without a call")
            mine = _call_of(message, waiting)
            if mine is None:
                raise RowError(
                    f"message {place} is the result of the call {message.tool_call_id!r}, which is not open"
                )
            waiting.remove(mine)
            update = {"tool_call_id": mine[1].id, "name": mine[1].function.name}
            message = message.model_copy(update={**update, "content": message.content or ""})
        found.append(message)
    return found


def _call_of(result: Message, waiting: Sequence[tuple[str, ToolCall]]) -> tuple[str, ToolCall] | None:
    if not result.tool_call_id:
        return waiting[0]
    named = (entry for entry in waiting if entry[0] == result.tool_call_id)
    return next(named, None) or next((entry for entry in waiting if not entry[0]), None)


def _message(row: Mapping[str, Any], failed: set[str]) -> Message:
    role = _ROLES.get(str(row.get("role")))
    if role is None:
        raise RowError(f"unknown role {row.get('role')!r}")
    content = row.get("content")
    if role == "tool":
        call_id = row.get("tool_call_id")
        is_error = bool(row.get("is_error") or row.get("error") or call_id in failed)
        text = text_of(content)
        error = row.get("error")
        if not text and error:
            text = str(error.get("message") if isinstance(error, dict) else error)
        return Message(
            role="tool",
            content=text or "",
            tool_call_id=str(call_id) if call_id else None,
            is_error=is_error,
            images=_images(content),
        )
    calls = row.get("tool_calls") or []
    if not isinstance(calls, list):
        raise RowError("tool_calls is not a list")
    if role != "assistant":
        return Message.model_validate({"role": role, "content": text_of(content) or ""})
    return Message(
        role="assistant",
        content=text_of(content),
        reasoning=_reasoning(row, content),
        tool_calls=[_call(call) for call in calls],
    )


def _reasoning(row: Mapping[str, Any], content: Any) -> str | None:
    for key in ("reasoning_content", "reasoning", "thinking"):
        if isinstance(row.get(key), str) and row[key]:
            return str(row[key])
    if isinstance(content, list):
        parts = [part for part in content if isinstance(part, dict)]
        # of encrypted reasoning, only a summary can be read
        texts = [
            part.get("summary")
            if part.get("redacted")
            else part.get("reasoning") or part.get("thinking") or part.get("summary")
            for part in parts
        ]
        return "\n\n".join(text for text in texts if isinstance(text, str) and text) or None
    return None


def _call(call: Any) -> ToolCall:
    if isinstance(call, str):
        call = parse(call.encode())
    if not isinstance(call, dict):
        raise RowError("a call is not a JSON object")
    function = call.get("function")
    if isinstance(function, dict):
        return tool_call(call.get("id"), function.get("name"), function.get("arguments"))
    return tool_call(call.get("id"), call.get("name") or function, call.get("arguments"))


def _arguments(arguments: Any) -> dict[str, Any]:
    if isinstance(arguments, str):
        try:
            arguments = parse(arguments.encode("utf-8", "replace")) if arguments.strip() else {}
        except RowError as error:
            raise RowError(f"the arguments of a call are {error}") from error
    if arguments is None:
        return {}
    if not isinstance(arguments, dict):
        raise RowError("the arguments of a call are not a JSON object")
    return arguments


def _part(part: Any) -> str:
    if isinstance(part, str):
        return part
    if not isinstance(part, dict):
        return json.dumps(part, ensure_ascii=False)
    match part.get("type"):
        case "text" | "input_text" | "output_text":
            return str(part.get("text") or "")
        case "reasoning" | "thinking":
            return ""  # stored as the message's reasoning
        case "image_url" | "image" | "audio" | "input_audio" | "video" as kind:
            return _media(str(kind), part)
        case _:
            return json.dumps(part, ensure_ascii=False)


def _media(kind: str, part: Mapping[str, Any]) -> str:
    """Return the placeholder for media; recordings use the same."""
    source = part.get(kind) or part.get("source") or part
    place = (
        source.get("url") or source.get("path") or source.get("data") if isinstance(source, dict) else source
    )
    text = str(place or "")
    kind = kind.removesuffix("_url").removeprefix("input_")
    if text.startswith("data:"):
        media, _, data = text.removeprefix("data:").partition(";base64,")
        return f"[{kind}: {media}, {len(data)} characters of base64]"
    return f"[{kind}: {text}]" if len(text) < 2000 else f"[{kind}: {len(text)} characters]"


def _images(content: Any) -> list[Image]:
    """Return the images whose data are in the parts of a content."""
    found = []
    for part in content if isinstance(content, list) else []:
        if isinstance(part, dict) and part.get("type") in ("image", "image_url"):
            place = part.get(part["type"])
            place = place.get("url") if isinstance(place, dict) else place
            media, named, data = str(place or "").removeprefix("data:").partition(";base64,")
            if named and str(place).startswith("data:"):
                found.append(Image(media_type=media, data=data))
    return found


def _tool(row: Mapping[str, Any]) -> ToolSchema:
    function = row["function"] if isinstance(row.get("function"), dict) else row
    parameters = (
        function.get("parameters") or function.get("inputSchema") or function.get("input_schema") or {}
    )
    if hasattr(parameters, "items") and isinstance(function.get("name"), str):
        return ToolSchema(
            function=FunctionSchema(
                name=function["name"], description=function.get("description") or "", parameters=parameters
            )
        )
    raise RowError("a tool has no name, or its parameters are not an object")
