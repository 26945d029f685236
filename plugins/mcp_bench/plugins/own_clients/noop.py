"""An agent that connects, lists the tools, and does nothing: the floor of every benchmark."""

from __future__ import annotations

from collections.abc import Mapping

from mcp_bench.plugins.contracts import Capabilities, Launch, LaunchRequest
from mcp_bench.plugins.needs import NOTHING
from mcp_bench.plugins.own_clients import base as own_client


class Noop(own_client.OwnClient):
    name = "noop"
    summary = "Connects and does nothing: the floor of every benchmark."
    capabilities = Capabilities(http=True)
    needs = NOTHING
    options: Mapping[str, str] = {}

    def prepare(self, request: LaunchRequest) -> Launch:
        return own_client.launch("noop", request)
