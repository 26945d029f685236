"""An agent that connects, lists the tools, and does nothing: the floor of every benchmark."""

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


class Noop:
    name = "noop"
    summary = "Connects and does nothing: the floor of every benchmark."
    capabilities = Capabilities(http=True)
    needs = NOTHING
    options: Mapping[str, str] = {}

    def find(self, environ: Mapping[str, str]) -> Installation:
        return own_client.installation()

    def prepare(self, request: LaunchRequest) -> Launch:
        return own_client.launch("noop", request)

    def read(self, output: AgentOutput, server: McpServer) -> Transcript:
        return read_transcript(output.stdout)
