"""Look at a run's model endpoint before the first episode: is it there, does it know the key and the model?

A run whose endpoint is down, or whose key or model is wrong, would otherwise fail episode by episode. The
look is a request for the list of models, which costs nothing. A list alone refuses no run: a key may not be
allowed to list, and a list may lack aliases. Only then, the smallest request to the model decides. Whatever
is not certain is left to the agent.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from mcp_bench.bridge.model_endpoint.apis import APIS, message_in, names_in
from mcp_bench.bridge.model_endpoint.request import NoResponseError, Response, send
from mcp_bench.bridge.model_endpoint.url import is_http_url, without_secrets
from mcp_bench.plugins.contracts import Agent, CoversMany
from mcp_bench.plugins.needs import PLACEHOLDER, ChoosesApi, LoginMissingError, ModelApi, needs_of
from mcp_bench.servers.errors import BenchError, WrongUseError, suggestion

UNAUTHORIZED, NOT_FOUND = 401, 404
NOTHING = "Nothing was recorded"


class EndpointDownError(BenchError):
    """The model endpoint cannot be reached."""

    may_pass = True


@dataclass(frozen=True)
class ModelEndpoint:
    """The endpoint of a run."""

    agent: str
    url: str
    api: ModelApi | None = None
    """None if it is not known: then it is only checked that something answers."""
    key: str | None = None
    """What the agent will send; None if that is not known."""
    key_names: tuple[str, ...] = ()
    """The user's variables that can hold a key for it."""
    model: str | None = None
    proxies: bool = False
    """Whether the agent gets the user's HTTPS_PROXY."""
    option: str = "--model"
    """The option that names the model."""
    command: str = ""
    """Starts the agent, if its plugin covers many."""

    @property
    def address(self) -> str:
        return without_secrets(self.url)


def endpoint_of(
    agent: Agent,
    named: str | None,
    options: Mapping[str, str],
    environ: Mapping[str, str],
    launched: Mapping[str, str],
    model: str | None,
    *,
    native: bool,
) -> ModelEndpoint | None:
    """Return the endpoint that an agent will use; None if it uses none, or if it is not certain which.

    Args:
        agent: the plugin.
        named: the URL that the user named, or that is captured.
        options: of the agent.
        environ: the user's environment.
        launched: the variables that the agent is started with: its key is one of them.
        model: that the user named.
        native: the agent has the user's own configuration, which can name another endpoint.

    Raises:
        WrongUseError: the URL in a variable is not one that a client can open.
    """
    needs = needs_of(agent)
    if needs is None or not needs.model:
        return None
    own = agent if isinstance(agent, ChoosesApi) else None
    if own is not None:
        environ = own.variables(options, environ)
    url = named
    if url is None and not native:
        url = next(filter(None, map(environ.get, needs.endpoint_variables)), None)
    if url is None and own is not None:
        url = needs.endpoint_for(environ)
    if url is None:
        return None
    if not is_http_url(url):
        source = next((name for name in needs.endpoint_variables if environ.get(name) == url), "its address")
        raise WrongUseError(
            f"the model endpoint of {agent.name}: {source} should be a URL that starts with http:// or "
            f"https://. {NOTHING}"
        )
    api = needs.api if own is None else own.api(options, environ)
    names = needs.endpoint_login if own is None else own.key_names(options, environ)
    keys = (*names, *needs.endpoint_keys)
    key = next(filter(None, map(launched.get, keys)), None if own is None else PLACEHOLDER)
    command = options.get("command", "") if isinstance(agent, CoversMany) else ""
    return ModelEndpoint(agent.name, url, api, key, names, model, proxies=native, command=command)


def look(endpoint: ModelEndpoint) -> None:
    """Ask the endpoint for its models, and if that raises doubts, for one token.

    Raises:
        EndpointDownError: nothing answers at its address.
        LoginMissingError: it refuses the key.
        WrongUseError: it does not know the model.
    """
    parts = urlsplit(endpoint.url)
    plain = not (parts.username or parts.password or parts.query)  # else the URL has a login of its own
    api = APIS.get(endpoint.api) if endpoint.api and endpoint.key and plain else None
    headers = api.headers(endpoint.key or "") if api else {}
    base = endpoint.address.rstrip("/")
    try:
        listed = send(base + api.models if api else endpoint.address, headers, proxies=endpoint.proxies)
    except NoResponseError as error:
        if error.cause == "unreachable":
            raise down(endpoint, error) from error
        return
    if api is None:
        return
    names = names_in(api, listed.body) if listed.status == 200 else []
    model = (endpoint.model or "").removeprefix("models/")
    refused = listed.status == UNAUTHORIZED
    if not refused and (not names or not model or model in names):
        return
    if model:
        path, body = api.smallest(model)
        try:
            asked = send(base + path, headers, body, proxies=endpoint.proxies)
        except NoResponseError:
            return
        if asked.status == UNAUTHORIZED:
            raise no_login(endpoint, asked)
        if asked.status == NOT_FOUND and names:
            raise unknown_model(endpoint, model, names, asked)
    elif refused:
        raise no_login(endpoint, listed)


def down(endpoint: ModelEndpoint, error: NoResponseError) -> EndpointDownError:
    command = f" --agent-command {shlex.quote(endpoint.command)}" if endpoint.command else ""
    name = endpoint.agent.partition(":")[0]
    check = f": mcp-bench doctor {name}{command} --base-url {endpoint.address}"
    of = "" if endpoint.option == "--model" else f" of {endpoint.agent}"
    return EndpointDownError(
        f"the model endpoint {endpoint.address}{of} cannot be reached: {error}. {NOTHING}. Start it, or "
        f"check its URL{check if not of else ''}"
    )


def no_login(endpoint: ModelEndpoint, response: Response) -> LoginMissingError:
    sent = "wants a key" if endpoint.key == PLACEHOLDER else "refuses the key"
    names = " or ".join(endpoint.key_names) or "its variable"
    words = message_in(response.body, endpoint.key or "")
    return LoginMissingError(
        f"login_missing: the model endpoint {endpoint.address} {sent} of {endpoint.agent} "
        f"(HTTP {response.status}: {words}). {NOTHING}. Set {names} to a key of this endpoint"
    )


def unknown_model(endpoint: ModelEndpoint, model: str, names: list[str], response: Response) -> WrongUseError:
    words = message_in(response.body, endpoint.key or "")
    return WrongUseError(
        f"the model endpoint {endpoint.address} has no model {model!r}{suggestion(model, names)} "
        f"(HTTP {response.status}: {words}). {NOTHING}. Name one of its models with {endpoint.option}"
    )
