"""Which models play a role in the worlds of a run, and what they may use."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from mcp_bench.bridge.model_endpoint.url import is_http_url, without_secrets
from mcp_bench.bridge.roles.limits import RoleLimits
from mcp_bench.bridge.roles.prices import Price, read_prices, require_prices, stored_prices
from mcp_bench.plugins.needs import PLACEHOLDER
from mcp_bench.recorder.run_settings import RunSettings, StoredRole
from mcp_bench.recorder.trajectory import Usage
from mcp_bench.servers.errors import WrongUseError
from mcp_bench.servers.needs import ROLES, Role

OPENAI = "https://api.openai.com/v1"
SHARED_KEY = "OPENAI_API_KEY"


@dataclass(frozen=True)
class RoleModel:
    """A model that plays a role, behind an endpoint with OpenAI's Chat Completions API."""

    role: Role
    model: str
    base_url: str
    """May contain a login."""
    key: str = field(repr=False)
    key_name: str = ""
    """The variable that the key is from; empty if there is none."""

    @property
    def address(self) -> str:
        """The endpoint without secrets."""
        return without_secrets(self.base_url)

    @property
    def has_login(self) -> bool:
        """Whether the URL has more than the address, which is not stored."""
        return self.base_url != self.address

    def stored(self) -> StoredRole:
        """Return what a run stores of it."""
        login = {"login": True} if self.has_login else {}
        return StoredRole(model=self.model, base_url=self.address, **login)

    def __str__(self) -> str:
        return f"the model {self.model!r} at {self.address}, which plays the {self.role}"


@dataclass(frozen=True)
class Roles:
    """The models of a run."""

    models: Mapping[Role, RoleModel] = field(default_factory=dict)
    limits: RoleLimits = field(default_factory=RoleLimits)
    prices: Mapping[str, Price] = field(default_factory=dict)
    """What the operator says that they cost, by the name of the model."""

    def priced(self, model: RoleModel, usage: Usage | None) -> Usage | None:
        """Return the usage of a request with its cost, unless the endpoint has reported one."""
        price = self.prices.get(model.model)
        if usage is None or usage.cost_usd is not None or price is None:
            return usage
        return usage.model_copy(update={"cost_usd": price.of(usage)})

    def store_in(self, settings: RunSettings) -> None:
        """Add what a run stores of them. There is no key in it."""
        if not self.models:
            return
        settings.role_models = {role: one.stored() for role, one in self.models.items()}
        settings.role_limits = self.limits._asdict()
        if self.prices:
            settings.role_prices = {model: price.model_dump() for model, price in self.prices.items()}


def key_variable(role: Role) -> str:
    """Return the variable that can hold the key for the model of a role."""
    return f"MCP_BENCH_{role.upper()}_API_KEY"


def url_variable(role: Role) -> str:
    """Return the variable that can hold the endpoint of a role with the login in its URL."""
    return f"MCP_BENCH_{role.upper()}_BASE_URL"


def keep_logins(roles: Roles, environ: MutableMapping[str, str]) -> None:
    """Keep the URLs with a login for the processes that record the run: its settings have none."""
    environ.update({url_variable(one.role): one.base_url for one in roles.models.values() if one.has_login})


def keep_role_keys(environ: MutableMapping[str, str]) -> None:
    """Give the shared key to each role that has none of its own, before something else takes its place."""
    key = environ.get(SHARED_KEY)
    if key and key != PLACEHOLDER:
        for role in ROLES:
            environ.setdefault(key_variable(role), key)


def roles_of(values: Mapping[str, Any], environ: Mapping[str, str]) -> Roles:
    """Return the models that choices name: `user_model`, `user_base_url`, and so on.

    Raises:
        WrongUseError: a role has an endpoint and no model, no key for OpenAI's own endpoint, or a key that
            cannot be sent; there are prices or limits, and no model; the file of prices cannot be read, or
            lacks one.
    """
    named = {role: (values.get(f"{role}_model"), values.get(f"{role}_base_url")) for role in ROLES}
    roles = _roles(named, values.get("role_limits") or {}, environ)
    if not roles.models:
        _refuse_idle(values)
    if (path := values.get("prices")) is None:
        return roles
    prices = read_prices(Path(path))
    models = {one.model for one in roles.models.values()}
    require_prices(Path(path), prices, models)
    return replace(roles, prices={model: prices[model] for model in sorted(models)})


def _refuse_idle(values: Mapping[str, Any]) -> None:
    """Refuse options about models of roles where no role has a model: they would hold for nothing."""
    for name, option in (("prices", "--prices"), ("role_limits", "--role-limit")):
        if values.get(name):
            models = ", ".join(f"--{role}-model" for role in ROLES)
            raise WrongUseError(
                f"{option} is about models that play a role, and no role has one: name it ({models}), or "
                f"leave out {option}. The agent's own cost is limited with --max-cost"
            )


def stored_roles(settings: RunSettings, environ: Mapping[str, str]) -> Roles:
    """Return the models of a run that is resumed, or recorded by another process.

    Raises:
        WrongUseError: as for `roles_of`; or an endpoint had a login in its URL, and its variable is not set.
    """
    named: dict[Role, tuple[str | None, str | None]] = dict.fromkeys(ROLES, (None, None))
    for role in ROLES:
        if (stored := settings.role_models.get(role)) is not None:
            named[role] = stored.model, _stored_url(role, stored, environ)
    roles = _roles(named, settings.role_limits, environ)
    return replace(roles, prices=stored_prices(settings.role_prices))


def _stored_url(role: Role, stored: StoredRole, environ: Mapping[str, str]) -> str:
    address = stored.base_url
    if not stored.login:
        return address
    url = environ.get(url_variable(role), "")
    if not is_http_url(url) or without_secrets(url) != address:
        raise WrongUseError(
            f"the endpoint of the model that plays the {role} has a login in its URL, which is not stored. "
            f"Set {url_variable(role)} to the URL with its login: {address}..."
        )
    return url


def _roles(
    named: Mapping[Role, tuple[str | None, str | None]], limits: Mapping[str, Any], environ: Mapping[str, str]
) -> Roles:
    models = {role: found for role, words in named.items() if (found := _model(role, *words, environ))}
    return Roles(models, RoleLimits(**limits))


def _model(
    role: Role, model: str | None, base_url: str | None, environ: Mapping[str, str]
) -> RoleModel | None:
    if model is None:
        if base_url is not None:
            raise WrongUseError(f"--{role}-base-url names an endpoint and no model: add --{role}-model NAME")
        return None
    url = base_url or environ.get("OPENAI_BASE_URL") or OPENAI
    own = key_variable(role)
    name = next((name for name in (own, SHARED_KEY) if environ.get(name)), "")
    if not name and url == OPENAI:
        raise WrongUseError(
            f"--{role}-model {model}: name its endpoint with --{role}-base-url URL, or set {own} or "
            f"{SHARED_KEY} to a key for {OPENAI}"
        )
    key = environ[name] if name else PLACEHOLDER
    if not (key.isascii() and key.isprintable()):  # the error of the HTTP library would show it
        raise WrongUseError(
            f"--{role}-model {model}: the key in {name} cannot be sent: it has a line end, or another "
            "character that no key has"
        )
    return RoleModel(role, model, url, key, name)
