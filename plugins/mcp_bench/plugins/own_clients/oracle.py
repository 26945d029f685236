"""The oracle: plays a task's reference calls over real MCP, perfectly or, on request, imperfectly.

The referee trusts it with the solution, so its scores say nothing about a model. They prove that the tasks
can be solved, and its imperfect variants make attempts of every quality.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from mcp_bench.plugins.contracts import Capabilities, Launch, LaunchRequest
from mcp_bench.plugins.needs import NOTHING
from mcp_bench.plugins.own_clients import base as own_client
from mcp_bench.servers.errors import BenchError


class NoReferenceError(BenchError):
    """The benchmark has no solution for a task."""


class Oracle(own_client.OwnClient):
    name = "oracle"
    summary = "Referee-trusted: plays the task's reference calls; with drop, spoil or slips, imperfectly."
    capabilities = Capabilities(plays_reference=True, http=True)
    needs = NOTHING
    options: Mapping[str, str] = {
        "drop": "share of calls left out, 0 to 1",
        "spoil": "share of calls with an argument changed, 0 to 1",
        "slips": "share of calls first made wrongly, refused by the tool, and repaired, 0 to 1",
        "explain": "true: say before a call which item it chose and what it calculated",
        "seed": "seed of the random choice, a number; each repeat makes another choice",
        "drop_answer": "true: submit no answer",
    }

    def prepare(self, request: LaunchRequest) -> Launch:
        """Return the launch with the reference calls on stdin.

        Raises:
            NoReferenceError: there is nothing to play.
            WrongUseError: an option has a value that makes no sense.
        """
        if request.reference is None:
            raise NoReferenceError("the oracle cannot play: the benchmark has no reference for this task")
        flags = own_client.flags(
            request,
            {
                "drop": own_client.share,
                "spoil": own_client.share,
                "slips": own_client.share,
                "explain": own_client.yes_or_no,
                "seed": int,
                "drop_answer": own_client.yes_or_no,
            },
        )
        flags += own_client.attempt_flags(request)
        stdin = request.reference
        if "--explain" in flags:
            stdin = json.dumps({**json.loads(stdin), "prompt": request.prompt}).encode()
        return own_client.launch("oracle", request, flags, stdin=stdin)
