"""Every engine of sandboxes that runs here, for tests of what all of them must hold."""

from __future__ import annotations

from collections.abc import Sequence

from mcp_bench.bridge.sandbox.containers.program import DOCKER, PODMAN, call
from mcp_bench.bridge.sandbox.engine import Engine, engines
from mcp_bench.servers.sandbox import SandboxLimits
from tests.support.requirements import skip

NAMES: Sequence[str] = ("bwrap", "podman", "docker")
PROGRAMS = {"podman": PODMAN, "docker": DOCKER}
SMALL = SandboxLimits(processes=40, storage=32 << 20, memory=256 << 20, files=2000)


def engine(name: str) -> Engine:
    """Return an engine, or skip the test where it does not work."""
    found = engines()[name]
    support = found.support()
    if not support.works:
        skip(name, support.detail)
    return found


def labels(name: str) -> str:
    """Return the labels of all containers of podman or docker."""
    return call(PROGRAMS[name], "ps", "--all", "--format={{.Labels}}").stdout.decode()
