"""Messages to and from a node of a cluster travel in pieces that Ray keeps out of its object store."""

from __future__ import annotations

from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import anyio
import pytest

from mcp_bench.bridge.engines.messages import Order, Report
from mcp_bench.bridge.engines.on_ray import driver
from mcp_bench.bridge.engines.on_ray.node import Node
from tests.support.recorded import planned

pytestmark = pytest.mark.unit

LONG = "ä" * 200_000


class Referee:
    """A referee process that says one thing and ends."""

    def __init__(self) -> None:
        self.got: list[str] = []

    async def send_line(self, line: str) -> None:
        self.got.append(line)

    async def reports(self) -> AsyncIterator[Report]:
        yield Report(line=LONG)
        yield Report(id=1)

    async def gone(self) -> None:
        pass


class Actor:
    """A node's methods as Ray offers them, without Ray. It refuses what Ray would store."""

    def __init__(self, node: Node) -> None:
        self._node = node

    def __getattr__(self, name: str) -> Any:
        async def remote(*given: Any) -> Any:
            answer = getattr(self._node, name)(*given)
            answer = await answer if hasattr(answer, "__await__") else answer
            for one in (*given, answer):
                assert one is None or len(one) <= 100_000
            return answer

        return SimpleNamespace(remote=remote)


def test_long_messages_arrive_whole() -> None:
    node, referee = Node(), Referee()
    node._referee = referee  # type: ignore[assignment]
    node._reports = referee.reports()
    there: Any = SimpleNamespace(actor=Actor(node))
    orders = [Order(id=1, planned=planned(LONG)), Order(id=2)]

    async def both_ways() -> list[Report | None]:
        for order in orders:
            await driver._send(there, order)
        return [await driver._next_report(there) for _ in range(3)]

    assert anyio.run(both_ways) == [Report(line=LONG), Report(id=1), None]
    assert referee.got == [order.model_dump_json() for order in orders]
