"""Checks of the models that play a role, before the first episode."""

from __future__ import annotations

import ipaddress
from collections.abc import Collection, Iterator, Mapping, Sequence
from urllib.parse import urlsplit

from mcp_bench.bridge.model_endpoint.apis import APIS
from mcp_bench.bridge.model_endpoint.look import ModelEndpoint, look
from mcp_bench.bridge.model_endpoint.request import NoResponseError, send
from mcp_bench.bridge.roles.models import SHARED_KEY, RoleModel, Roles, key_variable
from mcp_bench.servers.errors import WrongUseError
from mcp_bench.servers.needs import Role, needed_role

SHOWN = 3
"""Tasks that an error names."""


def require_models(needs: Mapping[str, Sequence[str]], named: Collection[Role]) -> None:
    """Check that there is a model for each role that tasks need.

    Args:
        needs: of each task, by its id (`Task.needs`).
        named: the roles that have a model.

    Raises:
        WrongUseError: a role has none.
    """
    lacking: dict[Role, list[str]] = {}
    for task, wanted in needs.items():
        for need in wanted:
            if (role := needed_role(need)) is not None and role not in named:
                lacking.setdefault(role, []).append(task)
    for role, tasks in lacking.items():
        few = ", ".join(tasks[:SHOWN]) + (", ..." if len(tasks) > SHOWN else "")
        raise WrongUseError(
            f"{len(tasks)} of the {len(needs)} tasks need a model that plays the {role} ({few}): name it "
            f"with --{role}-model NAME, and its endpoint with --{role}-base-url URL"
        )


def look_at_models(roles: Roles) -> None:
    """Look whether each endpoint works with its key and model, as far as that can be known.

    Raises:
        BenchError: it cannot be reached, refuses the key, or does not know the model.
    """
    for role, one in roles.models.items():
        names = (key_variable(role), SHARED_KEY)
        look(
            ModelEndpoint(
                f"--{role}-model",
                one.base_url,
                "chat-completions",
                one.key,
                names,
                one.model,
                proxies=True,
                option=f"--{role}-model",
            )
        )


def warnings(roles: Roles, launched: Mapping[str, str]) -> Iterator[str]:
    """Yield what an operator should know about the models of the roles.

    Args:
        launched: the environment of the agent.
    """
    for one in roles.models.values():
        if one.key_name and one.key in launched.values():
            yield (
                f"The agent gets the key of {one} ({one.key_name}). It could ask that model itself. Set "
                f"{key_variable(one.role)} to a key of its own"
            )
        if needs_no_key(one):
            yield (
                f"The endpoint of {one}, demands no key, so the agent can reach it, too: it could use the "
                f"model, or read its state. Start it with a key, and set {key_variable(one.role)}"
            )


def needs_no_key(model: RoleModel) -> bool:
    """Return whether an agent can use the endpoint without a key.

    Only an endpoint on this machine that got a key is asked, for one token: lists of models are often public.
    """
    if not model.key_name:
        return True
    if not is_loopback(model.base_url):
        return False
    path, body = APIS["chat-completions"].smallest(model.model)
    try:
        return send(model.address.rstrip("/") + path, {}, body).status == 200
    except NoResponseError:
        return False


def is_loopback(url: str) -> bool:
    """Return whether a URL names this machine's loopback address."""
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
