"""Make a run, or open one again: every choice of the operator is checked before the first episode."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import urlsplit, urlunsplit

from pydantic import JsonValue

from mcp_bench.bridge.budget import check_cost_is_told
from mcp_bench.bridge.episode.attempt import Setup, rehearse
from mcp_bench.bridge.episode.plan import chosen_tasks, plan
from mcp_bench.bridge.interactive.run import AGENT as HAND
from mcp_bench.bridge.model_proxy.upstream import upstream
from mcp_bench.bridge.proxy.recording import AGENT as PROXY
from mcp_bench.bridge.run.isolation_choice import isolated
from mcp_bench.bridge.wire.foreign_server import BENCHMARK as SERVER
from mcp_bench.bridge.wire.foreign_server import (
    NO_VERSION,
    ForeignServer,
    found_server,
    parse_server,
    plan_prompts,
)
from mcp_bench.plugins.contracts import Agent, Home, Tools
from mcp_bench.recorder.records import RunInfo, new_id, now_us
from mcp_bench.recorder.store.database import Durability
from mcp_bench.recorder.store.run_folder import RunFolder
from mcp_bench.servers.contracts import Benchmark
from mcp_bench.servers.errors import WrongUseError, suggestion
from mcp_bench.servers.registry import load
from mcp_bench.servers.world_session import refuse_control


@dataclass(frozen=True)
class Choices:
    """What the operator wants recorded, as it was given on the command line."""

    agent: str
    benchmark: str
    split: str | None = None
    tasks: Sequence[str] = ()
    tags: Sequence[str] = ()
    limit: int | None = None
    server: str | None = None
    """A command line or URL: record this server instead of a benchmark."""
    prompts: Sequence[str] = ()
    """With `server`: what the agent is to do."""
    repeat: int = 1
    seed: int = 0
    model: str | None = None
    base_url: str | None = None
    timeout: float = 900.0
    max_calls: int | None = None
    max_cost: float | None = None
    """US dollars, as the agent tells them."""
    retries: int = 2
    retry_wait: float = 5.0
    """Seconds before the first retry."""
    tools: Tools = "mcp-only"
    home: Home = "sealed"
    isolation: str = "auto"
    """A level's name, or "auto"."""
    require_isolation: str | None = None
    capture_llm: bool = False
    options: Mapping[str, str] = field(default_factory=dict)
    durability: Durability = "normal"


def start_run(choices: Choices) -> tuple[Setup, RunFolder]:
    """Check every choice, then make the run's folder. The caller closes it.

    Raises:
        BenchError: a name is unknown, the agent is not installed, the home cannot be written.
    """
    player = load_agent(choices.agent, choices.options, choices.model)
    installation = player.find(os.environ)
    if choices.max_cost is not None:
        check_cost_is_told(player)
    bench: Benchmark | None = None
    server: ForeignServer | None = None
    if choices.server is None:
        bench = load("benchmark", choices.benchmark)
        refuse_control(bench.tools(), bench.name)
        tasks = chosen_tasks(bench, choices.split, choices.tasks, choices.limit, choices.tags)
        episodes = plan(tasks, choices.repeat, choices.seed, choices.max_calls)
    else:
        server = parse_server(choices.server)
        check_fit(player, server)
        episodes = plan_prompts(choices.prompts, choices.repeat)
    settings: dict[str, JsonValue] = {
        "timeout": choices.timeout,
        "max_calls": choices.max_calls,
        "max_cost": choices.max_cost,
        "retries": choices.retries,
        "retry_wait": choices.retry_wait,
        "base_url": without_login(choices.base_url),
        "capture_llm": choices.capture_llm,
        "options": dict(choices.options),
        "durability": choices.durability,
        "own_tools": choices.tools == "all"
        or choices.home == "native"
        or not player.capabilities.builtin_tools_off,
    }
    if server is not None:
        settings["server"] = list[JsonValue](server.words)
    setup = Setup(
        benchmark=bench,
        agent=player,
        installation=installation,
        timeout=choices.timeout,
        model=choices.model,
        base_url=choices.base_url,
        tools=choices.tools,
        home=choices.home,
        options=choices.options,
        server=server,
        capture=upstream(player, choices.base_url, choices.options, os.environ)
        if choices.capture_llm
        else None,
    )
    setup = isolated(rehearse(setup), choices.isolation, choices.require_isolation)
    info = RunInfo(
        id=new_id("run"),
        created_us=now_us(),
        benchmark=bench.name if bench else SERVER,
        benchmark_version=bench.version if bench else NO_VERSION,
        agent=player.name,
        agent_version=installation.version,
        model=choices.model,
        isolation=setup.level.name,
        home=choices.home,
        tools=choices.tools,
        graded=bench is not None,
        settings=settings,
        plan=episodes,
    )
    return setup, RunFolder.create(info)


def check_fit(agent: Agent, server: ForeignServer) -> None:
    """Raises:
    WrongUseError: the agent cannot work with the server.
    """
    if agent.capabilities.plays_reference:
        raise WrongUseError(
            f"agent {agent.name!r} plays the solutions of a benchmark, and --server has none: choose another"
        )
    if server.url is not None and not agent.capabilities.http:
        raise WrongUseError(
            f"agent {agent.name!r} does not speak streamable HTTP: choose another, or give a command that "
            "speaks MCP on stdio"
        )


def resume_run(run_id: str, max_cost: float | None = None) -> tuple[Setup, RunFolder]:
    """Open a run that was stopped, with the settings it was started with. The caller closes it.

    `max_cost` is what it may cost from now on, if that changes.

    Raises:
        BenchError: there is no such run, somebody else is writing it, its agent is gone.
    """
    run = RunFolder.resume(run_id)
    try:
        setup = setup_again(run.info)
        if max_cost is not None:
            check_cost_is_told(setup.agent)
        return isolated(rehearse(setup), run.info.isolation), run
    except BaseException:
        run.close()
        raise


def setup_again(info: RunInfo) -> Setup:
    """Return the settings that a run was started with.

    Raises:
        WrongUseError: it was recorded by hand, without a plan; or its benchmark is of another version
            by now, and grades of two would be mixed.
    """
    if info.agent == HAND:
        raise WrongUseError(
            f"run {info.id} was recorded by hand, without a plan that could be resumed: start new tasks "
            "with `mcp-bench serve` or `mcp-bench connect`"
        )
    if info.agent == PROXY:
        raise WrongUseError(f"run {info.id} was recorded by `mcp-bench proxy`: there is nothing to resume")
    bench: Benchmark | None = None
    server: ForeignServer | None = None
    words = info.settings.get("server")
    if isinstance(words, list):
        server = found_server([str(word) for word in words])
    else:
        bench = load("benchmark", info.benchmark)
    if bench is not None and bench.version != info.benchmark_version:
        raise WrongUseError(
            f"run {info.id} was started with version {info.benchmark_version} of benchmark "
            f"{info.benchmark!r}, and this is version {bench.version}: start a new run"
        )
    settings = info.settings
    options = settings["options"]
    base_url = settings["base_url"]
    assert isinstance(options, dict) and isinstance(settings["timeout"], int | float)  # noqa: S101 - we wrote it
    url = None if base_url is None else str(base_url)
    texts = {key: str(value) for key, value in options.items()}
    player = load_agent(info.agent, texts, info.model)
    return Setup(
        benchmark=bench,
        agent=player,
        installation=player.find(os.environ),
        timeout=float(settings["timeout"]),
        model=info.model,
        base_url=url,
        tools="all" if info.tools == "all" else "mcp-only",
        home="native" if info.home == "native" else "sealed",
        options=texts,
        server=server,
        capture=upstream(player, url, texts, os.environ) if settings.get("capture_llm") else None,
    )


def load_agent(name: str, options: Mapping[str, str], model: str | None) -> Agent:
    """Return an agent's plugin, once it understands what it is told."""
    agent: Agent = load("agent", name.partition(":")[0])()  # such as acp:gemini, as a run stores it
    for key in options:
        if key not in agent.options:
            raise WrongUseError(f"agent {name!r} has no option {key!r}{suggestion(key, agent.options)}")
    if agent.capabilities.needs_model and model is None:
        raise WrongUseError(f"agent {name!r} has no model of its own: name one with --model")
    # a plugin for many agents gives the one that its options name
    chosen: Agent = agent.for_options(options) if hasattr(agent, "for_options") else agent
    return chosen


def without_login(url: str | None) -> str | None:
    """Drop a user and password from a URL: logins are never stored."""
    if url is None:
        return None
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
