"""What to record: the options of `mcp-bench record` and of `mcp_bench.api.record`, and their checks.

The command imports this module when it starts, so pydantic is imported only where values are checked.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar, get_type_hints

from mcp_bench.bridge.model_endpoint.url import is_http_url
from mcp_bench.bridge.roles.limits import RoleLimits
from mcp_bench.bridge.sandbox.names import AUTO, ENGINES
from mcp_bench.recorder.isolation_levels import IN_PROCESS, LEVELS, LIST, SEALING
from mcp_bench.recorder.option_fields import AboveZero, Bounds, Count, check_seed, option
from mcp_bench.servers.errors import UnknownNameError, WrongUseError
from mcp_bench.servers.needs import ROLES

if TYPE_CHECKING:
    from pydantic import BaseModel

AGENT_LIMITS = ("processes", "memory", "storage", "files")
ROLE_LIMITS = RoleLimits._fields
OF_ROLES = tuple(f"{role}_{what}" for role in ROLES for what in ("model", "base_url"))
OF_BENCHMARKS = ("benchmark", "split", "tasks", "tags", "limit", "max_calls", *OF_ROLES, "prices")
"""Choices that have no meaning with a server."""
URLS = ("base_url", *OF_ROLES[1::2])

ONE_OF_SEVERAL = re.compile(r"constrained-\w+|literal\[.*\]")

Checked = TypeVar("Checked")


def _role_model(role: str) -> Any:
    return option(None, f"Model that plays the {role}, in worlds that ask one.", metavar="M")


def _role_url(role: str) -> Any:
    return option(
        None,
        "Its endpoint, with the Chat Completions API. Default: $OPENAI_BASE_URL, or OpenAI's. "
        f"Its key is in $MCP_BENCH_{role.upper()}_API_KEY, or $OPENAI_API_KEY.",
        metavar="URL",
    )


@dataclass(frozen=True)
class Choices:
    """Options of `mcp-bench record`.

    Raises:
        WrongUseError: a value has the wrong type or is out of range, or two do not go together.
        UnknownNameError: there is no such level of isolation, or no such limit of an agent.
    """

    agent: str = field(metadata={"help": "Agent to run: see `mcp-bench agents`.", "metavar": "A"})
    benchmark: str = option("saasworld", "Benchmark to run it on: see `mcp-bench benchmarks`.", metavar="B")
    split: str | None = option(
        None,
        "A split, such as train, dev, test or private; or all. "
        "Default: the benchmark's; saasworld's is train.",
        metavar="S",
    )
    tasks: Sequence[str] = option(
        (), "Task id, or @FILE with several ids (repeatable).", name="task", metavar="ID"
    )
    tags: Sequence[str] = option(
        (), "Take only tasks with this tag (repeatable; all must match).", name="tag", metavar="TAG"
    )
    limit: Count | None = option(None, "Take at most N tasks. Default: all.", metavar="N")
    server: str | None = option(
        None,
        "Record any MCP server instead of a benchmark, without grades. A command inherits the environment "
        "and working directory and runs outside the agent's sandbox. It is stored with the run.",
        metavar="CMD|URL",
    )
    prompts: Sequence[str] = option(
        (), "With --server: a task for the agent (repeatable).", name="prompt", metavar="TEXT"
    )
    repeat: Count = option(1, "Number of episodes for each task.", metavar="K")
    seed: int = option(0, "Seed for what can vary in a world.")
    model: str | None = option(None, "Model for the agent.", metavar="M")
    base_url: str | None = option(
        None,
        "Model endpoint to use instead of the agent's default. With --resume: the run's own endpoint, if "
        "its URL has a login, which is not stored.",
        metavar="URL",
    )
    user_model: str | None = _role_model("user")
    user_base_url: str | None = _role_url("user")
    judge_model: str | None = _role_model("judge")
    judge_base_url: str | None = _role_url("judge")
    opponent_model: str | None = _role_model("opponent")
    opponent_base_url: str | None = _role_url("opponent")
    prices: str | None = option(
        None,
        "What these models cost, in YAML: MODEL: {input: 2.0, cached-input: 0.5, output: 8.0}, in "
        "US dollars per million tokens. A cost that the endpoint reports takes precedence.",
        metavar="FILE",
    )
    role_limits: Mapping[str, Count | AboveZero] = option(
        dict,
        "What each of these models may use in an episode: requests (200), tokens (2000000), cost "
        "in US dollars (no limit), and seconds for a request (120) (repeatable).",
        name="role_limit",
        metavar="KEY=N",
    )
    capture_llm: bool = option(
        False, "Also record the agent's requests to its model and the responses, by a proxy."
    )
    timeout: AboveZero = option(
        900.0, "Time limit for an attempt, unless the task sets its own.", metavar="SECONDS"
    )
    max_calls: Count | None = option(
        None,
        "Maximum number of tool calls in an attempt; a lower limit of the task applies.",
        metavar="N",
    )
    max_cost: AboveZero | None = option(
        None,
        "Cost limit for the run, for agents that report cost: once reached, no new episode starts. With "
        "--resume: the new limit.",
        metavar="USD",
    )
    retries: Annotated[int, Bounds(ge=0)] = option(
        2,
        "Maximum number of retries of an episode after the endpoint, a server or the launch failed. The "
        "agent's own failures are never retried.",
        metavar="N",
        envvar="MCP_BENCH_RETRIES",
        show_envvar=True,
    )
    retry_wait: Annotated[float, Bounds(ge=0)] = option(
        5.0, "Wait before the first retry; doubles each time.", metavar="SECONDS"
    )
    tools: Literal["mcp-only", "all"] = option(
        "mcp-only",
        "The agent's tools: the MCP server only, or also its built-in tools such as a shell. With harbor "
        "and codeworld, all starts the agent inside the task's sandbox.",
    )
    home: Literal["sealed", "native"] = option(
        "sealed",
        "sealed: a private home with your login and nothing else. native: your own home with your settings, "
        "skills, memory, other MCP servers and whole environment.",
    )
    isolation: str = option(
        "auto",
        f"How the agent is isolated from grades, recordings and other episodes: {LIST}. `auto` is "
        "the strongest level that works here. `in-process` makes chat or one-action a part of this process: "
        "that takes less time, and isolates nothing.",
        known=("auto", *LEVELS, IN_PROCESS),
        metavar="LEVEL",
        envvar="MCP_BENCH_ISOLATION",
        show_envvar=True,
    )
    sandbox: str = option(
        AUTO,
        f"Engine of the sandboxes that tasks ask for: {', '.join(ENGINES)}. `auto` is the first that works "
        "here.",
        known=(AUTO, *ENGINES),
        metavar="ENGINE",
        envvar="MCP_BENCH_SANDBOX",
        show_envvar=True,
    )
    require_isolation: str | None = option(
        None,
        "Refuse to record if the isolation is weaker than this level.",
        known=SEALING,
        metavar="LEVEL",
    )
    options: Mapping[str, str] = option(
        dict,
        "Agent-specific option, see `mcp-bench agents` (repeatable).",
        name="agent_option",
        metavar="KEY=VALUE",
    )
    harness: str | None = option(
        None,
        "A folder of instructions, tips, skills, tool descriptions and agent options for the agent. Its "
        "content is stored with the run, and `report` compares versions by a hash of it.",
        metavar="DIR",
    )
    agent_limits: Mapping[str, Count] = option(
        dict,
        "What one agent may use: processes (2048, threads included), memory and storage (8192 MiB each), "
        "files (1000000). An agent that uses more is ended and graded (repeatable).",
        name="agent_limit",
        metavar="KEY=N",
    )
    durability: Literal["normal", "full"] = option(
        "normal", "What stored data survives: a killed process (normal), or also a power cut (full, slower)."
    )
    run_tags: Sequence[str] = option(
        (), "Tag the run, for `report --run-tag` (repeatable).", name="run_tag", metavar="TAG"
    )
    note: str | None = option(
        None, "A note on the run, in your own words: see `mcp-bench annotate`.", metavar="TEXT"
    )

    def __post_init__(self) -> None:
        check_types({one.name: getattr(self, one.name) for one in fields(self)})
        if not self.agent:
            raise WrongUseError("name an agent (see `mcp-bench agents`)")
        for name in URLS:
            url = getattr(self, name)
            if url is not None and not is_http_url(url):
                raise WrongUseError(f"{name}: {url!r} is not an http:// or https:// URL")
        for one in fields(self):
            known, word = one.metadata.get("known"), getattr(self, one.name)
            if known and word is not None and word not in known:
                what = "sandbox engine" if one.name == "sandbox" else f"level of {one.name}"
                raise UnknownNameError(what, word, known)
        for name in self.agent_limits:
            if name not in AGENT_LIMITS:
                raise UnknownNameError("limit of an agent", name, AGENT_LIMITS)
        for name, most in self.role_limits.items():
            if name not in ROLE_LIMITS:
                raise UnknownNameError("limit of a role", name, ROLE_LIMITS)
            if name != "cost" and not isinstance(most, int):
                raise WrongUseError(f"role_limits.{name} is {most!r}: it should be a whole number")
        check_seed(self.seed)
        if self.server is None and self.prompts:
            raise WrongUseError("prompts needs server: a benchmark has tasks of its own")
        for name in OF_BENCHMARKS if self.server is not None else ():
            if getattr(self, name) not in (default(name), []):
                raise WrongUseError(f"{name} does not go with server")


def default(name: str) -> Any:
    """Return the default of a choice."""
    return getattr(Choices, name, None)


def check_types(values: Mapping[str, Any]) -> None:
    """Check types and ranges of choices.

    Raises:
        WrongUseError: a value does not fit.
    """
    check(_types(), values)


def check(kind: type[Checked], values: Mapping[str, Any]) -> Checked:
    """Return settings of some kind from values.

    Raises:
        WrongUseError: a value does not fit.
    """
    from pydantic import TypeAdapter, ValidationError

    try:
        return TypeAdapter(kind).validate_python(values)
    except ValidationError as error:
        first, *more = error.errors(include_url=False)
        where = place(first["loc"])
        # a value of several possible types has an error for each of them
        why = [first["msg"], *(one["msg"] for one in more if place(one["loc"]) == where)]
        what = ", or ".join(text.removeprefix("Input ") for text in why)
        raise WrongUseError(f"{where} is {first['input']!r}: it {what}") from None


def place(loc: Sequence[int | str]) -> str:
    """Return where a value is, without what pydantic calls the types that it may have."""
    return ".".join(str(part) for part in loc if not ONE_OF_SEVERAL.fullmatch(str(part)))


@cache
def _types() -> type[BaseModel]:
    from pydantic import ConfigDict, create_model

    hints = get_type_hints(Choices, include_extras=True)
    strict = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)
    required: Any = {name: (hint, ...) for name, hint in hints.items()}
    made: type[BaseModel] = create_model("Types", __config__=strict, **required)
    return made
