"""Finds the model endpoint of an agent, so that its requests can be captured."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

from mcp_bench.bridge.model_endpoint.url import is_http_url
from mcp_bench.plugins.contracts import Agent
from mcp_bench.plugins.needs import ChoosesApi, needs_of
from mcp_bench.servers.errors import WrongUseError

OPTION = "--capture-llm"
EPISODE = "{episode}"
"""In the path of an endpoint's URL: stands for the id of the episode. Such an endpoint can keep the
conversations of episodes apart. Agents see only what follows."""


def upstream(
    agent: Agent,
    base_url: str | None,
    options: Mapping[str, str],
    environ: Mapping[str, str],
    asked: str = OPTION,
) -> str:
    """Return the URL of an agent's model endpoint: `base_url` if given, else the agent's default.

    Args:
        asked: the option of the command line because of which requests are captured.

    Raises:
        WrongUseError: the agent uses no model, its endpoint cannot be changed or is unknown, its login only
            works at its own endpoint, or the URL contains a user or password.
    """
    found = named(agent, base_url, options, environ, asked)
    if is_http_url(found) and "@" in urlsplit(found).netloc:
        raise WrongUseError(
            f"{asked}: the URL of the endpoint of {agent.name!r} contains a user or password, which the "
            "proxy does not send. Give the endpoint a key, or a login in the query of its URL"
        )
    return found


def named(
    agent: Agent, base_url: str | None, options: Mapping[str, str], environ: Mapping[str, str], asked: str
) -> str:
    """Return the URL as it is named."""
    needs = needs_of(agent)
    if needs is None:
        if base_url is None:
            raise WrongUseError(f"{asked}: name the model endpoint of {agent.name!r} with --base-url")
        return base_url
    if not needs.model:
        raise WrongUseError(f"agent {agent.name!r} uses no model: leave out {asked}")
    if not needs.own_endpoint:
        raise WrongUseError(
            f"the model requests of {agent.name!r} cannot be captured, because its endpoint cannot be set: "
            f"leave out {asked}"
        )
    if isinstance(agent, ChoosesApi):
        environ = agent.variables(options, environ)
    url = base_url or next(filter(None, map(environ.get, needs.endpoint_variables)), None)
    if url is not None:
        return url
    free = {name: value for name, value in environ.items() if name not in needs.bound}
    found = needs.endpoint_for(free)
    if found is None:
        raise WrongUseError(f"the endpoint of {agent.name!r} depends on the model: name it with --base-url")
    keys = needs.free_login
    if keys and not any(map(environ.get, keys)):
        raise WrongUseError(
            f"{asked} needs an API key for {agent.name!r}: set {' or '.join(keys)}, or name an endpoint "
            "of your own with --base-url. Any other login only works at the agent's own endpoint"
        )
    return found
