"""Choose a run's isolation level: the requested one, or the strongest whose probes pass."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

import anyio

from mcp_bench.bridge.episode.attempt import PluginError, Setup, dry_launch, environment
from mcp_bench.bridge.episode.in_sandbox import LEVEL as INSIDE
from mcp_bench.bridge.episode.in_sandbox import check_inside
from mcp_bench.bridge.episode.sandbox_access import access, existing
from mcp_bench.bridge.isolation.level import Level
from mcp_bench.bridge.isolation.levels import BY_NAME
from mcp_bench.bridge.model_proxy.upstream import upstream
from mcp_bench.bridge.process.orphans import adopt_orphans
from mcp_bench.bridge.run.preflight import Verdict, preflight
from mcp_bench.bridge.wire.episode_folder import EpisodeFolder
from mcp_bench.plugins.contracts import Launch
from mcp_bench.recorder.isolation_levels import IN_PROCESS, LEVELS, OPEN, strength
from mcp_bench.servers.errors import BenchError, WrongUseError

AUTO = "auto"


class IsolationError(BenchError):
    """The requested isolation does not work here; the text says why."""


def isolated(setup: Setup, wanted: str, required: str | None = None) -> Setup:
    """Return the setup with the wanted isolation level, or the strongest one that works for "auto".

    The probes run once for each level that is tried.

    Raises:
        IsolationError: the level does not work here, or only levels weaker than `required` do.
        WrongUseError: the options exclude each other.
    """
    if setup.home == "native" and wanted not in (AUTO, "none"):
        raise WrongUseError(
            "--home native lets the agent work in your own home, but --isolation would block access to it. "
            "Leave out one of them"
        )
    tried = (INSIDE,) if setup.inside else LEVELS if wanted == AUTO else (wanted,)
    tried = ("none",) if setup.home == "native" else tried
    found, refused = None, {}
    for name in reversed(tried):
        verdict = check_level(setup, BY_NAME[name])
        if verdict.passed:
            found = replace(setup, level=BY_NAME[name], probes=verdict.probes)
            break
        refused[name] = str(verdict)
    reasons = [f"{name}: {why}" for name, why in refused.items()]
    if found is None:
        advice = (
            "An agent inside the task's sandbox has no other level: leave out --tools all"
            if setup.inside
            else "Run `mcp-bench doctor` to see which levels work, or use --isolation auto for the strongest "
            "of them"
        )
        raise IsolationError(f"isolation level {name} does not work here: {refused[name]}. {advice}")
    if required is not None and strength(found.level.name) < strength(required):
        why = f" ({'; '.join(reasons)})" if reasons else ""
        raise IsolationError(
            f"--require-isolation {required}: the level is {found.level.name}{why}. Nothing was recorded"
        )
    return replace(found, refused_levels=tuple(reasons))


def placed(setup: Setup, isolation: str) -> Setup:
    """Return the setup of a run whose agent works in its tasks' sandboxes; any other is returned unchanged.

    Such an agent has no network: the model proxy passes its requests on, and records them.

    Raises:
        WrongUseError: the agent, or its model endpoint, cannot be used there.
    """
    if not setup.inside or setup.benchmark is None:
        return setup
    check_inside(setup.agent, setup.benchmark, setup.home, isolation)
    named = setup.agent, setup.base_url, setup.options, setup.environ
    return replace(setup, capture=setup.capture or upstream(*named, asked="--tools all"))


def check_level(setup: Setup, level: Level) -> Verdict:
    """Return whether a level works on this machine for this agent."""
    if level.name == IN_PROCESS and not setup.agent.capabilities.in_process:
        return Verdict(level.name, trouble=f"agent {setup.agent.name!r} is a program of its own")
    if level.name == IN_PROCESS and setup.server is not None and setup.server.url is not None:
        return Verdict(level.name, trouble="it is for servers on stdio, not for one at a URL")
    if level.name in OPEN:
        return Verdict(level.name)
    support = level.support()
    if not support.works:
        advice = f"; {support.advice}" if support.advice else ""
        return Verdict(level.name, trouble=f"{support.detail}{advice}")
    launch: Launch | None = None
    with EpisodeFolder() as folder:
        with suppress(PluginError):  # the episodes will report a bug in the plugin
            launch = dry_launch(setup, folder)
        environ = environment(setup, folder, launch or Launch(()))
        needs = access(setup.installation, launch, folder.path, environ)
        if why := level.refuses(needs):
            return Verdict(level.name, trouble=why)
        word = launch.argv[0] if launch else setup.installation.executable
        program = str(existing(word, environ.get("PATH", "")) or word)
        adopt_orphans()
        return anyio.run(preflight, level, needs, folder, environ, program)
