"""The engines that can run a sandbox here, and which of them is used."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Protocol

from mcp_bench.bridge.isolation.support import Support
from mcp_bench.servers.errors import UnknownNameError
from mcp_bench.servers.sandbox import Sandbox, SandboxError, SandboxSpec

__all__ = ["AUTO", "Engine", "Sandbox", "SandboxError", "SandboxSpec", "choose", "engines"]

AUTO = "auto"


class Engine(Protocol):
    """One way to run sandboxes."""

    name: str

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

    found: tuple[Engine, ...] = (Bwrap(),)
    return {engine.name: engine for engine in found}


def choose(name: str = AUTO) -> Engine:
    """Return an engine that works here.

    Raises:
        SandboxError: it does not work here, or none does; the text says what to do.
        UnknownNameError: there is no such engine.
    """
    known = engines()
    if name != AUTO and name not in known:
        raise UnknownNameError("sandbox engine", name, (AUTO, *known))
    refused = []
    for engine in known.values():
        if name in (AUTO, engine.name):
            support = engine.support()
            if support.works:
                return engine
            refused.append(f"{engine.name}: {support.detail} ({support.advice})")
    raise SandboxError(f"no sandbox can be started here. {'; '.join(refused)}")
