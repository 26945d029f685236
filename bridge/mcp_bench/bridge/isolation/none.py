"""`none`: the agent is an ordinary process of the user. `in-process`: it is a part of the referee."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from mcp_bench.bridge.isolation.level import Access, Level
from mcp_bench.bridge.isolation.support import Support
from mcp_bench.recorder.isolation_levels import IN_PROCESS


class Unconfined:
    def __init__(self, name: str = "none") -> None:
        self.name = name

    def support(self) -> Support:
        return Support(True, "needs nothing")

    def refuses(self, access: Access) -> str:
        return ""

    @contextmanager
    def confined(self, access: Access) -> Iterator[None]:
        yield None


LEVEL: Level = Unconfined()
WITHIN: Level = Unconfined(IN_PROCESS)
