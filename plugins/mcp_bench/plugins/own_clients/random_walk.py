"""An agent that calls tools at random: the score without understanding."""

from __future__ import annotations

from collections.abc import Mapping

from mcp_bench.plugins.contracts import Capabilities, Launch, LaunchRequest
from mcp_bench.plugins.needs import NOTHING
from mcp_bench.plugins.own_clients import base as own_client


class Random(own_client.OwnClient):
    name = "random"
    summary = "Calls tools at random, with arguments that fit: the score of luck alone."
    capabilities = Capabilities()
    needs = NOTHING
    options: Mapping[str, str] = {
        "calls": "how many (default 20)",
        "seed": "seed of the random choice, a number; each repeat makes another choice",
    }

    def prepare(self, request: LaunchRequest) -> Launch:
        flags = own_client.flags(request, {"calls": own_client.natural, "seed": int})
        flags += own_client.attempt_flags(request)
        return own_client.launch("random_walk", request, flags, stdin=request.prompt.encode())
