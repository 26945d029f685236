"""The engines that can run a sandbox here, and which of them is used."""

from __future__ import annotations

import os
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Protocol

from mcp_bench.bridge.isolation.support import Support
from mcp_bench.bridge.sandbox.names import AUTO
from mcp_bench.servers.errors import UnknownNameError
from mcp_bench.servers.sandbox import HOST_BASE, IMAGE_BASE, Sandbox, SandboxError, SandboxSpec

__all__ = ["AUTO", "Engine", "Sandbox", "SandboxError", "SandboxSpec", "choose", "engines"]

VARIABLE = "MCP_BENCH_SANDBOX"


class Engine(Protocol):
    """One way to run sandboxes."""

    name: str
    runs_images: bool
    """Whether a base can be an image or its archive."""

    def support(self) -> Support:
        """Return whether the engine works on this machine, or what is missing."""
        ...

    def sandbox(self, spec: SandboxSpec) -> AbstractAsyncContextManager[Sandbox]:
        """Start a sandbox; on exit, all of its processes and files are gone.

        Raises:
            SandboxError: it could not be started.
        """
        ...


def engines() -> dict[str, Engine]:
    """Return all engines by name, the preferred ones first."""
    from mcp_bench.bridge.sandbox.bwrap import Bwrap
    from mcp_bench.bridge.sandbox.containers.engine import Containers
    from mcp_bench.bridge.sandbox.containers.program import DOCKER, PODMAN

    found: tuple[Engine, ...] = (Bwrap(), Containers(PODMAN), Containers(DOCKER))
    return {engine.name: engine for engine in found}


def choose(name: str = "", base: str = HOST_BASE) -> Engine:
    """Return an engine that works here.

    Args:
        name: its name; default: the one that the variable `MCP_BENCH_SANDBOX` names, or the first that works.
        base: the base of the sandbox; not every engine runs images.

    Raises:
        SandboxError: it does not work here, or none does; the text says what to do.
        UnknownNameError: there is no such engine.
    """
    known = engines()
    name = name or os.environ.get(VARIABLE) or AUTO
    if name != AUTO and name not in known:
        raise UnknownNameError("sandbox engine", name, (AUTO, *known))
    refused = []
    for engine in known.values():
        if name in (AUTO, engine.name):
            if needs_image(base) and not engine.runs_images:
                refused.append(f"{engine.name}: it runs no images, and the base is {base}")
                continue
            support = engine.support()
            if support.works:
                return engine
            refused.append(f"{engine.name}: {support.detail} ({support.advice})")
    raise SandboxError(f"no sandbox can be started here. {'; '.join(refused)}")


def needs_image(base: str) -> bool:
    return base.startswith(IMAGE_BASE) or Path(base).is_file()
