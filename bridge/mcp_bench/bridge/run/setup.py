"""Start or resume a run. All options are checked before the first episode."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path

import click

from mcp_bench.bridge.episode.attempt import PluginError, Setup, dry_launch, dry_run, environment
from mcp_bench.bridge.episode.plan import chosen_tasks, plan, tools_of
from mcp_bench.bridge.harness.folder import AGENTS, Harness, read_harness, stored_harness
from mcp_bench.bridge.harness.world import check_fits
from mcp_bench.bridge.interactive.run import AGENT as INTERACTIVE
from mcp_bench.bridge.model_endpoint.url import without_secrets
from mcp_bench.bridge.proxy.recording import AGENT as PROXY
from mcp_bench.bridge.roles.check import require_models
from mcp_bench.bridge.roles.models import Roles, keep_logins, roles_of, stored_roles
from mcp_bench.bridge.run.agent_setup import agent_limits, agent_setup, check_agent_fits
from mcp_bench.bridge.run.choices import Choices
from mcp_bench.bridge.run.circuit_breaker import require_cost_reports
from mcp_bench.bridge.run.isolation_choice import isolated, placed
from mcp_bench.bridge.run.left_out import that_can_run, with_reference
from mcp_bench.bridge.sandbox.runners.configured import check_sandboxes
from mcp_bench.bridge.wire.episode_folder import EpisodeFolder
from mcp_bench.bridge.wire.foreign_server import BENCHMARK as SERVER
from mcp_bench.bridge.wire.foreign_server import (
    NO_VERSION,
    ForeignServer,
    found_server,
    parse_server,
    plan_prompts,
)
from mcp_bench.recorder.records import PlannedEpisode, RunInfo, new_id, now_us
from mcp_bench.recorder.run_settings import CellOfRun, RunSettings
from mcp_bench.recorder.runs.annotations import annotate, check_annotations
from mcp_bench.recorder.runs.run_folder import RunFolder
from mcp_bench.recorder.verify.resume import resume
from mcp_bench.servers.contracts import Benchmark, BenchmarkDefaults, with_defaults
from mcp_bench.servers.errors import UnknownNameError, WrongUseError
from mcp_bench.servers.mcp_server.world_session import refuse_control
from mcp_bench.servers.needs import SANDBOX
from mcp_bench.servers.registry import load, registered
from mcp_bench.servers.terminal.sanitize import sanitize_line


def start_run(
    choices: Choices, cell: CellOfRun | None = None, *, elsewhere: bool = False
) -> tuple[Setup, RunFolder]:
    """Check all options, then create the run's folder. The caller closes it.

    `cell` is that of the matrix that it belongs to. `elsewhere`: see `checked_run`.

    Raises:
        BenchError: a name is unknown, the agent is not installed, the home cannot be written.
    """
    setup, info = checked_run(choices, elsewhere=elsewhere)
    keep_logins(setup.roles, os.environ)
    if cell is not None:
        info.settings.matrix = cell
    run = RunFolder.create(info)
    try:
        annotate_run(run, choices.run_tags, choices.note)
    except BaseException:
        run.close()
        raise
    return setup, run


def checked_run(choices: Choices, *, elsewhere: bool = False) -> tuple[Setup, RunInfo]:
    """Check all options and plan the run, without storing anything.

    Args:
        choices: the options.
        elsewhere: other machines record, which check by themselves whether they have what tasks need.

    Raises:
        BenchError: as for `start_run`.
    """
    check_annotations(choices.run_tags, choices.note)
    harness = None if choices.harness is None else read_harness(Path(choices.harness))
    for name in harness.agents if harness else ():
        if name not in registered("agent"):
            raise UnknownNameError(f"agent in {AGENTS}", name, registered("agent"))
    options = {**(harness.agents.get(choices.agent, {}) if harness else {}), **choices.options}
    setup = agent_setup(
        choices.agent,
        options,
        choices.model,
        choices.base_url,
        timeout=choices.timeout,
        tools=choices.tools,
        home=choices.home,
        capture=choices.capture_llm,
    )
    setup = replace(setup, harness=harness)
    agent = setup.agent
    roles = roles_of(asdict(choices), os.environ)
    if choices.max_cost is not None:
        require_cost_reports(agent, roles)
    settings = stored_choices(choices, setup, options, roles)
    backend, episodes = planned_episodes(choices, elsewhere=elsewhere)
    if isinstance(backend, ForeignServer):
        check_agent_fits(agent, backend)
        refuse_more_than_texts(harness)
        settings.server = list(backend.words)
        setup = replace(setup, server=backend)
    else:
        if not elsewhere and any(SANDBOX in one.needs for one in episodes):
            check_sandboxes(choices.sandbox)  # an error here, not in every episode
        if harness is not None:
            check_fits(harness, tools_of(backend), f"benchmark {backend.name!r}")
        settings.private_splits = list(with_defaults(backend, BenchmarkDefaults).private_splits)
        setup = replace(setup, benchmark=backend, sandbox=choices.sandbox)
        if agent.capabilities.plays_reference:
            episodes = with_reference(backend, episodes)  # its calls ask nobody
        else:
            require_models({one.task: one.needs for one in episodes}, roles.models)
        setup = placed(setup, choices.isolation)
        settings.capture_llm = setup.capture is not None
    setup = dry_run(replace(setup, limits=agent_limits(choices.agent_limits), roles=roles))
    look_at_endpoint(setup)
    setup = isolated(setup, choices.isolation, choices.require_isolation)
    info = RunInfo(
        id=new_id("run"),
        created_us=now_us(),
        benchmark=setup.benchmark.name if setup.benchmark else SERVER,
        benchmark_version=setup.benchmark.version if setup.benchmark else NO_VERSION,
        agent=agent.name,
        agent_version=setup.installation.version,
        model=choices.model,
        isolation=setup.level.name,
        home=choices.home,
        tools=choices.tools,
        graded=setup.benchmark is not None,
        settings=settings,
        plan=episodes,
    )
    return setup, info


def stored_choices(choices: Choices, setup: Setup, options: Mapping[str, str], roles: Roles) -> RunSettings:
    """Return what a run stores of its choices.

    Args:
        choices: the options of the command.
        setup: of the agent, with its harness.
        options: of the agent, also those that its harness brings.
        roles: the models that play a role.
    """
    settings = RunSettings(
        timeout=choices.timeout,
        max_calls=choices.max_calls,
        max_cost=choices.max_cost,
        retries=choices.retries,
        retry_wait=choices.retry_wait,
        base_url=choices.base_url and without_secrets(choices.base_url),
        capture_llm=choices.capture_llm,
        options=dict(options),
        agent_limits=dict(choices.agent_limits),
        sandbox=choices.sandbox,
        durability=choices.durability,
        own_tools=choices.tools == "all"
        or choices.home == "native"
        or not setup.agent.capabilities.builtin_tools_off,
    )
    roles.store_in(settings)
    if choices.base_url is not None and settings.base_url != choices.base_url:
        settings.endpoint_login = True  # for those who resume the run
    if setup.harness is not None:
        settings.harness = setup.harness.stored()
    return settings


def refuse_more_than_texts(harness: Harness | None) -> None:
    """Refuse a harness with skills or tool descriptions in front of a third-party server.

    Raises:
        WrongUseError: it has some.
    """
    if harness is not None and (harness.skills or harness.descriptions or harness.recalled):
        raise WrongUseError(
            f"{harness.name} has skills or tool descriptions, and a server's tools are passed on as they "
            "are: use a harness of instructions and tips with --server"
        )


def planned_episodes(
    choices: Choices, *, elsewhere: bool
) -> tuple[Benchmark | ForeignServer, list[PlannedEpisode]]:
    """Return what a run is played on, and its episodes.

    Raises:
        BenchError: there is no such benchmark, split, task or server, or nothing to do.
    """
    if choices.server is not None:
        return parse_server(choices.server), plan_prompts(choices.prompts, choices.repeat)
    bench: Benchmark = load("benchmark", choices.benchmark)
    refuse_control(tools_of(bench), bench.name)
    prepare_split(bench, choices.split)
    tasks = chosen_tasks(bench, choices.split, choices.tasks, choices.limit, choices.tags)
    planned = plan(tasks, choices.repeat, choices.seed, choices.max_calls)
    return bench, planned if elsewhere else that_can_run(planned)


def annotate_run(run: RunFolder, tags: Sequence[str], note: str | None) -> None:
    """Add tags and a note to a run.

    Raises:
        BenchError: a tag is not allowed, or their file cannot be written.
    """
    if tags or note is not None:
        annotate(run.path, add=tags, note=note)


def prepare_split(bench: Benchmark, split: str | None) -> None:
    """Let a benchmark make what a private split needs before its first use, and show what it made.

    Raises:
        BenchError: it cannot be made.
    """
    parts = with_defaults(bench, BenchmarkDefaults)
    if split in parts.private_splits and (made := parts.prepare_split(split)) is not None:
        click.echo(sanitize_line(made), err=True)


def resume_run(
    run_id: str,
    max_cost: float | None = None,
    run_tags: Sequence[str] = (),
    note: str | None = None,
    base_url: str | None = None,
) -> tuple[Setup, RunFolder]:
    """Open a stopped run with its own settings. The caller closes it.

    `run_id` can be a unique prefix of the id. `max_cost` replaces the run's cost limit, `note` its note;
    `run_tags` are added. `base_url` is the run's model endpoint with the login in its URL, which is not
    stored.

    Raises:
        BenchError: there is no such run, another process is writing it, its agent is not installed, or
            `base_url` is another endpoint or missing.
    """
    run = resume(run_id)
    try:
        _check_endpoint(run.info, base_url)
        setup = stored_setup(run.info, base_url)
        if max_cost is not None:
            require_cost_reports(setup.agent, setup.roles)
        setup = dry_run(setup)
        if run.pending():
            look_at_endpoint(setup)
        setup = isolated(setup, run.info.isolation)
        annotate_run(run, run_tags, note)
        return setup, run
    except BaseException:
        run.close()
        raise


def _check_endpoint(info: RunInfo, base_url: str | None) -> None:
    named = info.settings.base_url
    stored = None if named is None else without_secrets(named)
    if base_url is None and info.settings.endpoint_login:
        raise WrongUseError(
            f"the endpoint of run {info.id} has a login in its URL, which is not stored. Name it again, with "
            f"its login: --base-url {stored}..."
        )
    if base_url is not None and without_secrets(base_url) != stored:
        raise WrongUseError(
            f"--base-url: the endpoint of run {info.id} is {stored or 'the default of its agent'}. Name the "
            "same one, or start a new run"
        )


def setup_again(info: RunInfo, base_url: str | None) -> Setup:
    """Return the setup of a run in another process that records it, after the same checks.

    Args:
        info: of the run.
        base_url: the model endpoint with its login, which is not stored.

    Raises:
        BenchError: as for `resume_run`.
    """
    return isolated(dry_run(stored_setup(info, base_url)), info.isolation)


def look_at_endpoint(setup: Setup) -> None:
    """Look whether the model endpoint works with the agent's key and model, as far as that can be known.

    Raises:
        BenchError: it cannot be reached, refuses the key, or does not know the model.
    """
    from mcp_bench.bridge.model_endpoint.look import endpoint_of, look
    from mcp_bench.bridge.roles.check import look_at_models, warnings

    look_at_models(setup.roles)
    with EpisodeFolder() as folder:
        try:
            launch = dry_launch(setup, folder)
        except PluginError:  # the episodes will report a bug in the plugin
            return
        for warning in warnings(setup.roles, environment(setup, folder, launch)):
            click.echo(sanitize_line(f"Warning: {warning}"), err=True)
    endpoint = endpoint_of(
        setup.agent,
        setup.capture or setup.base_url,
        setup.options,
        setup.environ,
        launch.env,
        setup.model,
        native=setup.home == "native",
    )
    if endpoint is not None:
        look(endpoint)


def stored_setup(info: RunInfo, base_url: str | None) -> Setup:
    """Return the setup that a run was started with; `base_url` replaces the stored one.

    Raises:
        WrongUseError: the run has no plan to resume, or its benchmark has another version now, which would
            mix grades of two versions.
    """
    if info.agent == INTERACTIVE:
        raise WrongUseError(
            f"run {info.id} was recorded interactively and has no plan to resume. Start new tasks with "
            "`mcp-bench serve` or `mcp-bench connect`"
        )
    if info.agent == PROXY:
        raise WrongUseError(f"run {info.id} was recorded by `mcp-bench proxy`: there is nothing to resume")
    settings = info.settings
    bench: Benchmark | None = None
    server: ForeignServer | None = None
    if settings.server is not None:
        server = found_server(settings.server)
    else:
        bench = load("benchmark", info.benchmark)
    if bench is not None and bench.version != info.benchmark_version:
        raise WrongUseError(
            f"run {info.id} was started with version {info.benchmark_version} of benchmark "
            f"{info.benchmark!r}, but version {bench.version} is installed. Start a new run"
        )
    assert settings.timeout is not None  # noqa: S101 - we wrote it
    setup = agent_setup(
        info.agent,
        settings.options,
        info.model,
        base_url or settings.base_url,
        timeout=settings.timeout,
        tools="all" if info.tools == "all" else "mcp-only",
        home="native" if info.home == "native" else "sealed",
        capture=settings.capture_llm,
    )
    return replace(
        setup,
        benchmark=bench,
        server=server,
        limits=agent_limits(settings.agent_limits),
        roles=stored_roles(settings, os.environ),
        harness=stored_harness(settings),
        sandbox=settings.sandbox,
    )
