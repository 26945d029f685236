"""Unpack what tests bring along, also with a Python older than 3.11.4, which filters no archive."""

from __future__ import annotations

import tarfile
from io import BytesIO
from pathlib import Path


def unpack(archive: Path | bytes, folder: Path) -> None:
    source = BytesIO(archive) if isinstance(archive, bytes) else archive.open("rb")
    with source, tarfile.open(fileobj=source) as tar:
        tar.extraction_filter = getattr(tarfile, "data_filter", None)
        tar.extractall(folder)
