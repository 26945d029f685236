"""Search over versions of a target, with a model that proposes them: for improvement tasks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from mcp_bench.plugins.contracts import Launch, LaunchRequest
from mcp_bench.plugins.own_clients import base as own_client
from mcp_bench.plugins.own_clients.chat import Chat

DRIVERS = ("single", "icl", "best-of-n", "puct", "evolve", "gepa", "openevolve")


class Search(Chat):
    """One request for each version; `driver` says which earlier versions the model sees."""

    name = "search"
    summary = "For improvement tasks: a model proposes versions, and a driver chooses what it sees."
    client = "search"
    capabilities = replace(Chat.capabilities, inside=False, in_process=False)
    options: Mapping[str, str] = {
        "driver": f"one of {', '.join(DRIVERS)} (default icl)",
        "seed": "seed of the driver's random choices; each repeat makes other ones",
        **{key: text for key, text in Chat.options.items() if key != "thinking"},
        "max_steps": "maximum number of proposals (default 50)",
        "token_budget": "tokens of all requests and answers, after which it submits (default: no limit)",
    }
    parsers: Mapping[str, Callable[[str], object]] = {
        "driver": own_client.one_of(*DRIVERS),
        "seed": int,
        "token_budget": own_client.positive,
        **{key: parse for key, parse in Chat.parsers.items() if key != "thinking"},
    }

    def prepare(self, request: LaunchRequest) -> Launch:
        """Return the launch with the prompt on stdin; see `Chat.prepare`."""
        if "seed" not in request.options:
            drawn = str(request.seed * 1000 + request.repeat)
            request = replace(request, options={**request.options, "seed": drawn})
        return super().prepare(replace(request, resumable=False))
