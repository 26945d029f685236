"""The part of a setup that concerns the agent: its plugin, its options, and what it may use."""

from __future__ import annotations

import os
from collections.abc import Mapping

from mcp_bench.bridge.episode.attempt import Setup
from mcp_bench.bridge.model_proxy.upstream import upstream
from mcp_bench.bridge.process.limits import AgentLimits
from mcp_bench.bridge.wire.foreign_server import ForeignServer
from mcp_bench.plugins.contracts import Agent, CoversMany, Home, Tools
from mcp_bench.servers.errors import WrongUseError, suggestion
from mcp_bench.servers.registry import load


def agent_limits(changed: Mapping[str, int]) -> AgentLimits:
    """Return the limits of each agent, from those that were changed; memory and storage are in MiB."""
    return AgentLimits()._replace(
        **{key: value << 20 if key in ("memory", "storage") else value for key, value in changed.items()}
    )


def agent_setup(
    name: str,
    options: Mapping[str, str],
    model: str | None,
    base_url: str | None,
    *,
    timeout: float,
    tools: Tools,
    home: Home,
    capture: bool,
) -> Setup:
    """Return the part of a setup that concerns the agent.

    Raises:
        BenchError: the agent is unknown or not installed, or an option does not fit it.
    """
    agent = load_agent(name, options, model)
    return Setup(
        benchmark=None,
        agent=agent,
        installation=agent.find(os.environ),
        timeout=timeout,
        model=model,
        base_url=base_url,
        tools=tools,
        home=home,
        options=options,
        capture=upstream(agent, base_url, options, os.environ) if capture else None,
    )


def load_agent(name: str, options: Mapping[str, str], model: str | None) -> Agent:
    """Return an agent's plugin after checking its options.

    Raises:
        WrongUseError: the agent has no such option, or needs a model.
    """
    agent: Agent = load("agent", name.partition(":")[0])()  # runs store names such as acp:gemini
    for key in options:
        if key not in agent.options:
            raise WrongUseError(f"agent {name!r} has no option {key!r}{suggestion(key, agent.options)}")
    if agent.capabilities.needs_model and model is None:
        raise WrongUseError(f"agent {name!r} has no default model: name one with --model")
    return agent.for_options(options) if isinstance(agent, CoversMany) else agent


def check_agent_fits(agent: Agent, server: ForeignServer) -> None:
    """Check that an agent can work with a server.

    Raises:
        WrongUseError: it cannot.
    """
    if agent.capabilities.plays_reference:
        raise WrongUseError(
            f"agent {agent.name!r} replays a benchmark's solutions, but --server has none. Choose another"
        )
    if server.url is not None and not agent.capabilities.http:
        raise WrongUseError(
            f"agent {agent.name!r} does not support streamable HTTP. Choose another, or give --server a "
            "command that speaks MCP on stdio"
        )
