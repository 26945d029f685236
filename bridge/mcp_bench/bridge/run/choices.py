"""What to record: the options of `mcp-bench record` and of `mcp_bench.api.record`, and their checks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from functools import cache
from typing import Annotated, Any, Literal, TypeVar, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model

from mcp_bench.bridge.model_endpoint.url import is_http_url
from mcp_bench.bridge.roles.models import RoleLimits
from mcp_bench.bridge.sandbox.names import AUTO, ENGINES
from mcp_bench.recorder.isolation_levels import IN_PROCESS, LEVELS, SEALING
from mcp_bench.servers.errors import UnknownNameError, WrongUseError
from mcp_bench.servers.host import ROLES

DEFAULT_BENCHMARK = "saasworld"
DEFAULT_RETRIES = 2
AGENT_LIMITS = ("processes", "memory", "storage", "files")
ROLE_LIMITS = RoleLimits._fields
OF_ROLES = tuple(f"{role}_{what}" for role in ROLES for what in ("model", "base_url"))
OF_BENCHMARKS = ("benchmark", "split", "tasks", "tags", "limit", "max_calls", *OF_ROLES, "prices")
"""Choices that have no meaning with a server."""

Count = Annotated[int, Field(ge=1)]
Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]
AboveZero = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Model = TypeVar("Model", bound=BaseModel)


@dataclass(frozen=True)
class Choices:
    """Options of `mcp-bench record`.

    Raises:
        WrongUseError: a value has the wrong type or is out of range, or two do not go together.
        UnknownNameError: there is no such level of isolation, or no such limit of an agent.
    """

    agent: str
    benchmark: str = DEFAULT_BENCHMARK
    split: str | None = None
    tasks: Sequence[str] = ()
    tags: Sequence[str] = ()
    limit: Count | None = None
    server: str | None = None
    """Command line or URL of a server to record instead of a benchmark."""
    prompts: Sequence[str] = ()
    """Tasks for the agent, with `server`."""
    repeat: Count = 1
    seed: int = 0
    model: str | None = None
    base_url: str | None = None
    user_model: str | None = None
    """A model that plays the user in worlds that ask one, and where it is: see `bridge.roles`."""
    user_base_url: str | None = None
    judge_model: str | None = None
    judge_base_url: str | None = None
    opponent_model: str | None = None
    opponent_base_url: str | None = None
    role_limits: Mapping[str, Count | AboveZero] = field(default_factory=dict)
    """What each of these models may use in an episode: see `RoleLimits`."""
    prices: str | None = None
    """A file that says what they cost: see `bridge.roles.prices`."""
    timeout: AboveZero = 900.0
    max_calls: Count | None = None
    max_cost: AboveZero | None = None
    """US dollars, as the agent reports them."""
    retries: Annotated[int, Field(ge=0)] = DEFAULT_RETRIES
    retry_wait: Seconds = 5.0
    """Seconds before the first retry."""
    tools: Literal["mcp-only", "all"] = "mcp-only"
    home: Literal["sealed", "native"] = "sealed"
    isolation: str = "auto"
    """A level's name, or "auto"."""
    sandbox: str = AUTO
    """An engine's name, or "auto"."""
    require_isolation: str | None = None
    capture_llm: bool = False
    options: Mapping[str, str] = field(default_factory=dict)
    harness: str | None = None
    """A folder: see `mcp_bench.bridge.harness.folder`."""
    agent_limits: Mapping[str, Count] = field(default_factory=dict)
    """See `mcp_bench.bridge.process.limits.AgentLimits`; memory and storage are in MiB here."""
    durability: Literal["normal", "full"] = "normal"
    run_tags: Sequence[str] = ()
    """The operator's words about the run, as `note`: see `mcp_bench.recorder.runs.annotations`."""
    note: str | None = None

    def __post_init__(self) -> None:
        check_types({one.name: getattr(self, one.name) for one in fields(self)})
        if not self.agent:
            raise WrongUseError("name an agent (see `mcp-bench agents`)")
        for name in ("base_url", *OF_ROLES[1::2]):
            url = getattr(self, name)
            if url is not None and not is_http_url(url):
                raise WrongUseError(f"{name}: {url!r} is not an http:// or https:// URL")
        levels = (
            ("isolation", self.isolation, ("auto", *LEVELS, IN_PROCESS)),
            ("require_isolation", self.require_isolation, SEALING),
        )
        for name, level, known in levels:
            if level is not None and level not in known:
                raise UnknownNameError(f"level of {name}", level, known)
        if self.sandbox not in (AUTO, *ENGINES):
            raise UnknownNameError("sandbox engine", self.sandbox, (AUTO, *ENGINES))
        for name in self.agent_limits:
            if name not in AGENT_LIMITS:
                raise UnknownNameError("limit of an agent", name, AGENT_LIMITS)
        for name, most in self.role_limits.items():
            if name not in ROLE_LIMITS:
                raise UnknownNameError("limit of a role", name, ROLE_LIMITS)
            if name != "cost" and not isinstance(most, int):
                raise WrongUseError(f"role_limits.{name} is {most!r}: it should be a whole number")
        if self.server is None and self.prompts:
            raise WrongUseError("prompts needs server: a benchmark has tasks of its own")
        for name in OF_BENCHMARKS if self.server is not None else ():
            if getattr(self, name) not in (default(name), []):
                raise WrongUseError(f"{name} does not go with server")


def default(name: str) -> Any:
    """Return the default of a choice."""
    (found,) = (one for one in fields(Choices) if one.name == name)
    return None if found.default is MISSING else found.default


def check_types(values: Mapping[str, Any]) -> None:
    """Check types and ranges of choices.

    Raises:
        WrongUseError: a value does not fit.
    """
    check(_types(), values)


def check(model: type[Model], values: Mapping[str, Any]) -> Model:
    """Return the model of some values.

    Raises:
        WrongUseError: a value does not fit.
    """
    try:
        return model.model_validate(values)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        what = first["msg"].removeprefix("Input ")
        raise WrongUseError(f"{where} is {first['input']!r}: it {what}") from None


@cache
def _types() -> type[BaseModel]:
    hints = get_type_hints(Choices, include_extras=True)
    strict = ConfigDict(strict=True, extra="forbid")
    required: Any = {name: (hint, ...) for name, hint in hints.items()}
    made: type[BaseModel] = create_model("Types", __config__=strict, **required)
    return made
