"""Convert tool results to MCP."""

from __future__ import annotations

import math

from mcp_types import CallToolResult, ContentBlock, ImageContent, TextContent
from pydantic_core import to_json

from mcp_bench.servers.contracts import JSON, ToolResult
from mcp_bench.servers.progress import Report


def to_mcp(result: ToolResult) -> CallToolResult:
    """Return the result in MCP's form: the text, then the images. There is no empty text beside an image.

    The reward and the end of the world stay here. Lone surrogates, which are not valid Unicode, become
    U+FFFD.
    """
    content: list[ContentBlock] = []
    if result.text or not result.images:
        content.append(TextContent(type="text", text=well_formed(result.text)))
    content += [
        ImageContent(type="image", data=image.data, mime_type=image.media_type) for image in result.images
    ]
    return CallToolResult(
        content=content,
        structured_content=None if result.structured is None else well_formed_object(result.structured),
        is_error=result.is_error,
    )


def progress_in_json(report: Report) -> Report:
    """Return a receiver of progress that passes on what JSON has: neither NaN nor lone surrogates."""

    async def pass_on(done: float, total: float | None = None, message: str | None = None) -> None:
        if is_finite(done):
            known = total if total is not None and is_finite(total) else None
            await report(done, known, None if message is None else well_formed(message))

    return pass_on


def is_finite(number: float) -> bool:
    return not isinstance(number, float) or math.isfinite(number)


def well_formed_object(value: dict[str, JSON]) -> dict[str, JSON]:
    try:
        to_json(value)  # far cheaper than checking each string
    except ValueError:
        return {well_formed(key): well_formed_value(inner) for key, inner in value.items()}
    return value


def structured_json(value: dict[str, JSON]) -> bytes:
    """Return an object as the SDK writes it: NaN and infinities become null."""
    return to_json(well_formed_object(value), inf_nan_mode="null")


def well_formed_value(value: JSON) -> JSON:
    match value:
        case str():
            return well_formed(value)
        case list():
            return [well_formed_value(inner) for inner in value]
        case dict():
            return {well_formed(key): well_formed_value(inner) for key, inner in value.items()}
    return value


def well_formed(text: str) -> str:
    """Return the text in a form that UTF-8 can encode: surrogate pairs joined, lone surrogates replaced."""
    try:
        text.encode()  # nearly free for valid text
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text
