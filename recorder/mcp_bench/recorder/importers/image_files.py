"""Images in files beside rows, as `export --images files` writes them."""

from __future__ import annotations

from base64 import b64encode
from pathlib import Path
from typing import Any

from mcp_bench.recorder.formats.image_files import ENDINGS, FOLDER
from mcp_bench.recorder.importers.attempt import RowError
from mcp_bench.recorder.importers.json_rows import ROW_BYTES


def with_image_files(messages: Any, folder: Path) -> Any:
    """Return messages with data URLs in place of the paths of image files.

    Only files in the folder `images` beside the rows are read: a row is data, and must not choose what else
    of this machine gets into the store.

    Args:
        messages: the messages of a row, of any form.
        folder: where the rows are.

    Raises:
        RowError: a file is missing, too large, or a link to another place.
    """
    if not isinstance(messages, list):
        return messages
    return [
        {**message, "content": [_part(part, folder) for part in message["content"]]}
        if isinstance(message, dict) and isinstance(message.get("content"), list)
        else message
        for message in messages
    ]


def _part(part: Any, folder: Path) -> Any:
    name = part.get("image") if isinstance(part, dict) and part.get("type") == "image" else None
    if not isinstance(name, str) or not name.startswith(f"{FOLDER}/"):
        return part
    path = folder / name
    if path.resolve().parent != (folder / FOLDER).resolve():
        raise RowError(f"the image {name} is not a file in {FOLDER}/")
    try:
        if path.stat().st_size > ROW_BYTES:
            raise RowError(f"the image {name} is larger than {ROW_BYTES >> 20} MiB")
        data = b64encode(path.read_bytes()).decode()
    except OSError as error:
        raise RowError(f"cannot read the image {name}: {error.strerror or error}") from error
    media = {ending: media for media, ending in ENDINGS.items()}.get(path.suffix, "application/octet-stream")
    return {**part, "image": f"data:{media};base64,{data}"}
