"""`none`: the agent is an ordinary process of the user."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from mcp_bench.bridge.isolation.level import Access, Level
from mcp_bench.bridge.isolation.support import Support


class Unconfined:
    name = "none"

    def support(self) -> Support:
        return Support(True, "needs nothing")

    def refuses(self, access: Access) -> str:
        return ""

    @contextmanager
    def confined(self, access: Access) -> Iterator[None]:
        yield None


LEVEL: Level = Unconfined()
