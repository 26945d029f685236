"""Record runs, in a process of their own."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

from mcp_bench.api.names import Names, several
from mcp_bench.api.process import OnEvent, RunProcess
from mcp_bench.api.runs import Run
from mcp_bench.bridge.engines.parallel import AUTO, PARALLEL, Processes
from mcp_bench.bridge.run.child import Request
from mcp_bench.bridge.run.choices import Choices, check, default
from mcp_bench.bridge.run.events import RunEnded
from mcp_bench.servers.errors import WrongUseError
from mcp_bench.servers.home import VARIABLE, home_in
from mcp_bench.servers.home import home as default_home

PLACE = ("on_event", "progress", "home", "env")
"""Parameters that are not of the run."""


def record(
    agent: str,
    benchmark: str = "saasworld",
    *,
    split: str | None = None,
    tasks: Names = (),
    tags: Names = (),
    limit: int | None = None,
    server: str | None = None,
    prompts: Names = (),
    repeat: int = 1,
    seed: int = 0,
    jobs: int = 1,
    referees: Processes = AUTO,
    ray: bool = False,
    address: str | None = None,
    model: str | None = None,
    base_url: str | None = None,
    user_model: str | None = None,
    user_base_url: str | None = None,
    judge_model: str | None = None,
    judge_base_url: str | None = None,
    opponent_model: str | None = None,
    opponent_base_url: str | None = None,
    role_limits: Mapping[str, float] | None = None,
    prices: str | Path | None = None,
    capture_llm: bool = False,
    timeout: float = 900.0,
    max_calls: int | None = None,
    max_cost: float | None = None,
    retries: int | None = None,
    retry_wait: float = 5.0,
    tools: Literal["mcp-only", "all"] = "mcp-only",
    agent_home: Literal["sealed", "native"] = "sealed",
    isolation: str | None = None,
    sandbox: str | None = None,
    require_isolation: str | None = None,
    agent_options: Mapping[str, str] | None = None,
    harness: str | Path | None = None,
    agent_limits: Mapping[str, int] | None = None,
    agent_command: str | None = None,
    durability: Literal["normal", "full"] = "normal",
    run_tags: Names = (),
    note: str | None = None,
    on_event: OnEvent | None = None,
    progress: bool | None = None,
    home: str | Path | None = None,
    env: Mapping[str, str] | None = None,
) -> Run:
    """Run an agent on tasks, record every call, and grade the final state: `mcp-bench record`.

    The referee is a process of its own; this one is left as it is. Ctrl-C stops the agents, keeps the
    recordings and then raises KeyboardInterrupt; pressed again, it stops at once. It can be called from any
    thread, several times at once, and in a notebook, whose event loop it does not touch.

    Episodes that are invalid raise nothing: see `Run.summary` and `Run.stopped_by`.

    Args:
        agent: Agent to run: see `mcp-bench agents`.
        benchmark: Benchmark to run it on: see `mcp-bench benchmarks`.
        split: such as train, dev, test or private; or all. By default the benchmark's; saasworld's is train.
        tasks: Ids of the tasks. A single one needs no list.
        tags: Take only tasks with all of these tags.
        limit: Take at most so many tasks.
        server: Command line or URL of an MCP server to record instead of a benchmark, without grades.
        prompts: With `server`: the tasks for the agent.
        repeat: Number of episodes for each task.
        seed: Seed for what can vary in a world.
        jobs: Number of episodes to run in parallel.
        referees: Number of referee processes that share them; `auto` as for the command.
        ray: Run them on the nodes of a Ray cluster, instead of on this machine.
        address: With `ray`: `HOST:PORT` of its head. By default the cluster that this machine is a node of.
        model: Model for the agent.
        base_url: Model endpoint to use instead of the agent's default.
        user_model: Model that plays the user, in worlds that ask one.
        user_base_url: Its endpoint, with the Chat Completions API. Its key is in
            `$MCP_BENCH_USER_API_KEY`, or `$OPENAI_API_KEY`.
        judge_model: Likewise, a model that judges.
        judge_base_url: Its endpoint.
        opponent_model: Likewise, a model to play against.
        opponent_base_url: Its endpoint.
        role_limits: What each of these models may use in an episode: requests, tokens, cost in US dollars,
            and seconds for a request.
        prices: A YAML file that says what these models cost.
        capture_llm: Also record the agent's requests to its model and the responses.
        timeout: Time limit for an attempt in seconds, unless the task sets its own.
        max_calls: Maximum number of tool calls in an attempt.
        max_cost: Cost limit for the run in US dollars, for agents that report cost.
        retries: Maximum number of retries of an episode after the endpoint, a server or the launch failed.
            By default `$MCP_BENCH_RETRIES`, else 2.
        retry_wait: Seconds before the first retry; doubles each time.
        tools: The agent's tools: the MCP server only, or also its built-in ones. With `harbor` and
            `codeworld`, `all` starts the agent inside the task's sandbox.
        agent_home: `sealed`: a private home with your login. `native`: your own home and environment.
        isolation: Level of isolation. By default `$MCP_BENCH_ISOLATION`, else the strongest that works here.
        sandbox: Engine of the sandboxes that tasks ask for: `bwrap`, `podman` or `docker`. By default
            `$MCP_BENCH_SANDBOX`, else the first that works here.
        require_isolation: Refuse to record if the isolation is weaker than this level.
        agent_options: Options of the agent: see `mcp-bench agents`.
        harness: Folder of instructions, tips, skills, tool descriptions and agent options for the agent.
        agent_limits: What one agent may use: processes, memory and storage (MiB), files.
        agent_command: Command that starts an agent with the Agent Client Protocol.
        durability: What stored data survives: a killed process (normal), or also a power cut (full, slower).
        run_tags: Your tags of the run, to find it later.
        note: A note on the run, in your own words.
        on_event: Called with each event, in this thread.
        progress: Whether to show the progress. By default, it is shown if there is no `on_event`.
        home: Where to store the run. By default `$MCP_BENCH_HOME`, else your user data directory.
        env: Variables to add to the environment of this process, such as the key of an endpoint.

    Returns:
        The stored run.

    Raises:
        WrongUseError: a name is unknown, a value out of range, or two options do not go together.
        MissingDependencyError: the agent or the benchmark is not installed.
        BenchError: anything else that you can act on; the text says what to do.
    """
    return _run(_start(locals()).wait())


async def record_async(
    agent: str,
    benchmark: str = "saasworld",
    *,
    split: str | None = None,
    tasks: Names = (),
    tags: Names = (),
    limit: int | None = None,
    server: str | None = None,
    prompts: Names = (),
    repeat: int = 1,
    seed: int = 0,
    jobs: int = 1,
    referees: Processes = AUTO,
    ray: bool = False,
    address: str | None = None,
    model: str | None = None,
    base_url: str | None = None,
    user_model: str | None = None,
    user_base_url: str | None = None,
    judge_model: str | None = None,
    judge_base_url: str | None = None,
    opponent_model: str | None = None,
    opponent_base_url: str | None = None,
    role_limits: Mapping[str, float] | None = None,
    prices: str | Path | None = None,
    capture_llm: bool = False,
    timeout: float = 900.0,
    max_calls: int | None = None,
    max_cost: float | None = None,
    retries: int | None = None,
    retry_wait: float = 5.0,
    tools: Literal["mcp-only", "all"] = "mcp-only",
    agent_home: Literal["sealed", "native"] = "sealed",
    isolation: str | None = None,
    sandbox: str | None = None,
    require_isolation: str | None = None,
    agent_options: Mapping[str, str] | None = None,
    harness: str | Path | None = None,
    agent_limits: Mapping[str, int] | None = None,
    agent_command: str | None = None,
    durability: Literal["normal", "full"] = "normal",
    run_tags: Names = (),
    note: str | None = None,
    on_event: OnEvent | None = None,
    progress: bool | None = None,
    home: str | Path | None = None,
    env: Mapping[str, str] | None = None,
) -> Run:
    """Like `record`, for use in an event loop of asyncio or trio.

    Cancelling the task stops the agents and keeps the recordings. `on_event` is called in the loop's thread.
    """
    return _run(await _start(locals()).wait_async())


def resume(
    run: str | Run,
    *,
    jobs: int = 1,
    referees: Processes = AUTO,
    ray: bool = False,
    address: str | None = None,
    max_cost: float | None = None,
    run_tags: Names = (),
    note: str | None = None,
    base_url: str | None = None,
    on_event: OnEvent | None = None,
    progress: bool | None = None,
    home: str | Path | None = None,
    env: Mapping[str, str] | None = None,
) -> Run:
    """Resume a stopped run with its own settings, and retry its invalid episodes.

    Args:
        run: It, or its id.
        jobs: Number of episodes to run in parallel.
        referees: Number of referee processes that share them; `auto` as for the command.
        ray: Run them on the nodes of a Ray cluster, instead of on this machine.
        address: With `ray`: `HOST:PORT` of its head. By default the cluster that this machine is a node of.
        max_cost: A new cost limit in US dollars, with what was spent before.
        run_tags: Tags to add to the run.
        note: A new note on the run.
        base_url: The run's model endpoint again, if its URL has a login or a query: these are not stored.
        on_event: As for `record`, like the rest.
        progress: Whether to show the progress.
        home: Where the run is stored, if `run` is an id. By default as for `record`.
        env: Variables to add to the environment of this process.

    Raises:
        UnknownNameError: there is no such run.
        StorageError: another process is recording it, or it was changed.
        BenchError: anything else that you can act on.
    """
    return _run(_start_again(locals()).wait())


async def resume_async(
    run: str | Run,
    *,
    jobs: int = 1,
    referees: Processes = AUTO,
    ray: bool = False,
    address: str | None = None,
    max_cost: float | None = None,
    run_tags: Names = (),
    note: str | None = None,
    base_url: str | None = None,
    on_event: OnEvent | None = None,
    progress: bool | None = None,
    home: str | Path | None = None,
    env: Mapping[str, str] | None = None,
) -> Run:
    """Like `resume`, for use in an event loop of asyncio or trio."""
    return _run(await _start_again(locals()).wait_async())


def _start(given: dict[str, Any]) -> RunProcess:
    """Check the parameters of `record`, and start."""
    place = {name: given.pop(name) for name in PLACE}
    parallel = {name: given.pop(name) for name in PARALLEL}
    command = given.pop("agent_command")
    environ = {**os.environ, **(place["env"] or {})}
    given |= {name: several(given[name]) for name in ("tasks", "tags", "prompts", "run_tags")}
    given["home"] = given.pop("agent_home")
    for name in ("harness", "prices"):
        if given[name] is not None:
            given[name] = str(Path(given[name]).expanduser().absolute())
    given["options"] = dict(given.pop("agent_options") or {})
    if command is not None:
        given["options"]["command"] = command
    for name in ("agent_limits", "role_limits"):
        given[name] = dict(given[name] or {})
    if given["retries"] is None:
        given["retries"] = _retries(environ)
    if given["isolation"] is None:
        given["isolation"] = environ.get("MCP_BENCH_ISOLATION") or "auto"
    if given["sandbox"] is None:
        given["sandbox"] = environ.get("MCP_BENCH_SANDBOX") or "auto"
    try:
        choices = asdict(Choices(**given))
    except WrongUseError as error:
        error.args = (re.sub(r"^(home|options)\b", r"agent_\g<0>", str(error)),)  # the names here
        raise
    return _process({**parallel, "choices": choices}, place)


def _start_again(given: dict[str, Any]) -> RunProcess:
    place = {name: given.pop(name) for name in PLACE}
    run: str | Run = given.pop("run")
    if isinstance(run, Run):
        place["home"] = run.path.parent.parent
    given["resume"] = run.id if isinstance(run, Run) else run
    given["run_tags"] = several(given["run_tags"])
    return _process(given, place)


def _process(request: dict[str, Any], place: dict[str, Any]) -> RunProcess:
    home, env = place.pop("home"), place["env"] or {}
    if home is not None:
        folder = Path(home).expanduser().absolute()
    else:
        folder = home_in(env) if env.get(VARIABLE) else default_home()
    return RunProcess(check(Request, request), folder, **place)


def _run(ended: RunEnded) -> Run:
    return Run(Path(ended.path), stopped_by=ended.stopped_by)


def _retries(environ: Mapping[str, str]) -> int:
    text = environ.get("MCP_BENCH_RETRIES") or str(default("retries"))
    if not (text.isascii() and text.isdigit()):
        raise WrongUseError(f"$MCP_BENCH_RETRIES is {text!r}: it must be a whole number, 0 or more")
    return int(text)
