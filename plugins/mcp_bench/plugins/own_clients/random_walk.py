"""An agent that calls tools at random: what one without understanding gets."""

from __future__ import annotations

from collections.abc import Mapping

from mcp_bench.plugins.contracts import (
    AgentOutput,
    Capabilities,
    Installation,
    Launch,
    LaunchRequest,
    McpServer,
    Transcript,
)
from mcp_bench.plugins.needs import NOTHING
from mcp_bench.plugins.own_clients import base as own_client
from mcp_bench.plugins.own_clients.events import read_transcript


class Random:
    name = "random"
    summary = "Calls tools at random, with arguments that fit: what luck alone gets."
    capabilities = Capabilities()
    needs = NOTHING
    options: Mapping[str, str] = {
        "calls": "how many (default 20)",
        "seed": "which calls those are, a number; other ones in each repeat",
    }

    def find(self, environ: Mapping[str, str]) -> Installation:
        return own_client.installation()

    def prepare(self, request: LaunchRequest) -> Launch:
        flags = own_client.flags(request, {"calls": own_client.natural, "seed": int})
        flags += own_client.attempt_flags(request)
        return own_client.launch("random_walk", request, flags, stdin=request.prompt.encode())

    def read(self, output: AgentOutput, server: McpServer) -> Transcript:
        return read_transcript(output.stdout)
