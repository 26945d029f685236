"""Check the images of a tool result before they are sent."""

from __future__ import annotations

import binascii
import re

from mcp_bench.servers.contracts import ToolResult
from mcp_bench.servers.errors import BenchError

IMAGE_TYPE = re.compile(r"image/[A-Za-z0-9][A-Za-z0-9.+-]{0,99}")


class BadImageError(BenchError):
    """A world returned an image that cannot be sent."""


def check_images(result: ToolResult) -> None:
    """Refuse images that no client can show.

    Raises:
        BadImageError: an image's data is not base64, or its media type is not `image/...`.
    """
    for number, image in enumerate(result.images, start=1):
        if not IMAGE_TYPE.fullmatch(image.media_type):
            raise BadImageError(f"image {number} has the media type {image.media_type!r}, not image/...")
        try:
            empty = not binascii.a2b_base64(image.data, strict_mode=True)
        except ValueError as error:
            raise BadImageError(f"image {number} is not in base64: {error}") from error
        if empty:
            raise BadImageError(f"image {number} is empty")
