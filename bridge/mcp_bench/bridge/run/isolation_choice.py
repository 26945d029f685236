"""Which level a run has: the one that was asked for, or the strongest whose probes pass."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

import anyio

from mcp_bench.bridge.episode.attempt import PluginError, Setup, environment, rehearsed
from mcp_bench.bridge.episode.sandbox_access import access, existing
from mcp_bench.bridge.isolation.level import Level
from mcp_bench.bridge.isolation.levels import BY_NAME
from mcp_bench.bridge.process.orphans import adopt_orphans
from mcp_bench.bridge.run.preflight import Verdict, preflight
from mcp_bench.bridge.wire.episode_folder import EpisodeFolder
from mcp_bench.plugins.contracts import Launch
from mcp_bench.servers.errors import BenchError, WrongUseError

AUTO = "auto"
ORDER = tuple(BY_NAME)
"""Weakest first."""


class IsolationError(BenchError):
    """Agents cannot be isolated as was asked for; the text says why."""


def isolated(setup: Setup, wanted: str, required: str | None = None) -> Setup:
    """Return a setup with the level that is wanted, which may be "auto".

    The probes are run once for each level that is tried.

    Raises:
        IsolationError: the level does not work here, or none as strong as `required` does.
        WrongUseError: the options exclude each other.
    """
    if setup.home == "native" and wanted not in (AUTO, "none"):
        raise WrongUseError(
            "--home native lets the agent work in your own home, which --isolation would close to it: "
            "leave out one of them"
        )
    tried = ORDER if wanted == AUTO else (wanted,)
    tried = ("none",) if setup.home == "native" else tried
    found, refused = None, {}
    for name in reversed(tried):
        verdict = examined(setup, BY_NAME[name])
        if verdict.passed:
            found = replace(setup, level=BY_NAME[name], probes=verdict.probes)
            break
        refused[name] = str(verdict)
    reasons = [f"{name}: {why}" for name, why in refused.items()]
    if found is None:
        raise IsolationError(
            f"agents cannot be isolated by {wanted} here: {refused[wanted]}. `mcp-bench doctor` tells what "
            "works; --isolation auto takes the strongest level that does"
        )
    if required is not None and ORDER.index(found.level.name) < ORDER.index(required):
        why = f" ({'; '.join(reasons)})" if reasons else ""
        raise IsolationError(
            f"--require-isolation {required}: this would be {found.level.name}{why}. Nothing was recorded"
        )
    return replace(found, weaker=tuple(reasons))


def examined(setup: Setup, level: Level) -> Verdict:
    """Say whether a level works here, for this agent."""
    if level.name == "none":
        return Verdict(level.name)
    support = level.support()
    if not support.works:
        advice = f"; {support.advice}" if support.advice else ""
        return Verdict(level.name, trouble=f"{support.detail}{advice}")
    launch: Launch | None = None
    with EpisodeFolder() as folder:
        with suppress(PluginError):  # the episodes will tell of a bug
            launch = rehearsed(setup, folder)
        environ = environment(setup, folder, launch or Launch(()))
        needs = access(setup.installation, launch, folder.path, environ)
        if why := level.refuses(needs):
            return Verdict(level.name, trouble=why)
        word = launch.argv[0] if launch else setup.installation.executable
        program = str(existing(word, environ.get("PATH", "")) or word)
        adopt_orphans()
        return anyio.run(preflight, level, needs, folder, environ, program)
