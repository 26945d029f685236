"""The oracle: plays a task's reference calls over real MCP, perfectly or, on request, less so.

The referee trusts it with the solution, so its scores say nothing of a model: they prove that the
tasks can be solved, and its imperfect variants make attempts of every quality.
"""

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
from mcp_bench.servers.errors import BenchError


class NoReferenceError(BenchError):
    """The benchmark has no solution for a task."""


class Oracle:
    name = "oracle"
    summary = "Referee-trusted: plays the task's reference calls; with drop or spoil, imperfectly."
    capabilities = Capabilities(plays_reference=True, http=True)
    needs = NOTHING
    options: Mapping[str, str] = {
        "drop": "share of calls left out, 0 to 1",
        "spoil": "share of calls with an argument changed, 0 to 1",
        "seed": "which calls those are, a number; other ones in each repeat",
        "drop_answer": "true: no answer is handed in",
    }

    def find(self, environ: Mapping[str, str]) -> Installation:
        return own_client.installation()

    def prepare(self, request: LaunchRequest) -> Launch:
        """Raises:
        NoReferenceError: there is nothing to play.
        WrongUseError: an option's value makes no sense.
        """
        if request.reference is None:
            raise NoReferenceError("the oracle cannot play: the benchmark has no reference for this task")
        flags = own_client.flags(
            request,
            {
                "drop": own_client.share,
                "spoil": own_client.share,
                "seed": int,
                "drop_answer": own_client.yes_or_no,
            },
        )
        flags += own_client.attempt_flags(request)
        return own_client.launch("oracle", request, flags, stdin=request.reference)

    def read(self, output: AgentOutput, server: McpServer) -> Transcript:
        return read_transcript(output.stdout)
