"""Images of tool results in files beside the rows. A name is a hash, so each image is stored once."""

from __future__ import annotations

from hashlib import sha256

from mcp_bench.recorder.conversations.images import image_bytes
from mcp_bench.recorder.trajectory import Trajectory
from mcp_bench.servers.contracts import Image

FOLDER = "images"
"""Folder of the files, beside the data."""
ENDINGS = {"image/png": ".png", "image/jpeg": ".jpg", "image/webp": ".webp", "image/gif": ".gif"}


def image_path(image: Image, data: bytes) -> str:
    """Return the path of an image's file, relative to the data."""
    return f"{FOLDER}/{sha256(data).hexdigest()}{ENDINGS.get(image.media_type, '')}"


def image_files(trajectory: Trajectory) -> dict[str, bytes]:
    """Return the paths of the images of a conversation, and what is in the files."""
    images = [image for message in trajectory.messages for image in message.images]
    read = [(image, image_bytes(image)) for image in images]
    return {image_path(image, data): data for image, data in read if data is not None}
