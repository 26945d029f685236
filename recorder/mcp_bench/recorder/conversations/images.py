"""Images in the results of a conversation. They are stored once, in the frames; texts only name them."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterator, Sequence
from hashlib import sha256
from typing import Any

from mcp_bench.recorder.conversations.timeline import timeline
from mcp_bench.recorder.frames.jsonrpc import media_text
from mcp_bench.recorder.records import RecordedCall
from mcp_bench.recorder.trajectory import Message
from mcp_bench.servers.contracts import Image


def with_images(messages: Sequence[Message], calls: Sequence[RecordedCall]) -> list[Message]:
    """Return the messages of an episode, its results with the images of their recorded calls."""
    found = []
    for message, moment in zip(messages, timeline(messages, calls), strict=True):
        number = moment.calls[0] if message.role == "tool" and moment.calls else None
        images = calls[number - 1].images if number is not None else []
        found.append(message.model_copy(update={"images": images}) if images else message)
    return found


def image_text(image: Image) -> str:
    """Return what stands for an image in the text of its result."""
    return media_text("image", image.media_type, image.data)


def parts(message: Message) -> Iterator[str | Image]:
    """Yield the texts of a message and its images, each where the text names it. Empty texts are left out."""
    rest = message.content or ""
    for image in message.images:
        before, named, after = rest.partition(image_text(image))
        if named:
            if text := before.removesuffix("\n"):
                yield text
            rest = after.removeprefix("\n")
        yield image
    if rest:
        yield rest


def data_url(image: Image) -> str:
    return f"data:{image.media_type};base64,{image.data}"


def image_bytes(image: Image) -> bytes | None:
    """Return the image's file, or None if the data is no base64: a server can return anything."""
    try:
        return b64decode(image.data, validate=True)
    except ValueError:
        return None


def image_facts(image: Image) -> dict[str, Any]:
    """Return what can be said about an image without its data."""
    data = image_bytes(image)
    data = image.data.encode() if data is None else data
    return {
        "media_type": image.media_type,
        "bytes": len(data),
        "sha256": sha256(data).hexdigest(),
        "text": image_text(image),
    }
