"""An agent inside the sandbox of its task, where the files are that its own shell works on.

It gets its program and the episode's folder there, and nothing else of the machine. Its model is reached
through a listener in the sandbox, behind which the model proxy stands; its MCP server through the episode's
socket. What it left is graded in a fresh sandbox, like the work of any other agent.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio

from mcp_bench.bridge.isolation.hidden import SYSTEM
from mcp_bench.bridge.isolation.level import Access, Confinement
from mcp_bench.bridge.isolation.uid import hand_over
from mcp_bench.bridge.process.agent import INTERPRETER
from mcp_bench.bridge.sandbox import enter
from mcp_bench.bridge.sandbox.bwrap import BwrapSandbox
from mcp_bench.plugins.contracts import Agent, Home, LentLogin, Tools
from mcp_bench.servers.contracts import Benchmark, BenchmarkDefaults, World, with_defaults
from mcp_bench.servers.errors import BenchError, WrongUseError
from mcp_bench.servers.sandbox import HOST_BASE
from mcp_bench.servers.worlds.shell_world import ShellWorld

LEVEL = "bwrap"
"""The isolation of such an agent: the sandbox is one of bubblewrap, without a network."""
SECONDS = 30.0


@dataclass(frozen=True)
class Door:
    """How an agent gets into a sandbox."""

    sandbox: BwrapSandbox
    described: Mapping[str, Any]
    """For enter.py."""
    deaths: int = 0
    """How often everything in it had been killed before the agent was there: by what set the task up."""

    @property
    def folder(self) -> str:
        """Where the task's work is."""
        return str(self.described["workdir"])

    def environment(self, own: Mapping[str, str]) -> dict[str, str]:
        """Return an agent's environment with the sandbox's: its programs are found after the agent's."""
        theirs: Mapping[str, str] = self.described["env"]
        path = f"{own.get('PATH', os.defpath)}:{theirs['PATH']}"
        return {**theirs, **own, "PATH": path}

    def confinement(self, access: Access) -> Confinement:
        """Return how an agent is started inside. Its folder belongs to the sandbox's user from now on."""
        if (uid := self.described["uid"]) is not None:
            hand_over(access.folder, uid)
        system = set(map(Path, SYSTEM))  # the sandbox has it already
        rules = {
            "door": dict(self.described),
            "folder": self.folder,
            "read": [str(path) for path in access.read if path not in system],
            "masked": [str(path) for path in access.masked],
            "write": [str(path) for path in access.write],
            "links": [[str(path), target] for path, target in access.links],
        }
        return Confinement(rules, launcher=enter.__file__)

    def killed_all(self) -> bool:
        """Return whether the agent, or a limit that it exceeded, has ended the sandbox's processes."""
        return bool(self.sandbox.over) or self.sandbox.deaths > self.deaths

    async def listener(self) -> socket.socket:
        """Return a socket that listens on the sandbox's loopback.

        Raises:
            BenchError: it cannot be opened.
        """
        return await anyio.to_thread.run_sync(self._listener)

    def _listener(self) -> socket.socket:
        ours, theirs = socket.socketpair()
        with ours, theirs:
            ours.settimeout(SECONDS)
            command = [INTERPRETER, "-I", "-S", enter.__file__, str(theirs.fileno())]
            with subprocess.Popen(command, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, env={}):
                theirs.close()
                ours.sendall(json.dumps({"listen": True, "door": dict(self.described)}).encode())
                ours.shutdown(socket.SHUT_WR)
                said, found, _, _ = socket.recv_fds(ours, 4096, 1)
        if not found:
            raise BenchError(f"no relay into the sandbox: {said.decode(errors='replace').strip()}")
        return socket.socket(fileno=found[0])


def works_inside(benchmark: Benchmark | None, tools: Tools) -> bool:
    """Return whether agents of a run are put into the sandbox of their task."""
    return tools == "all" and with_defaults(benchmark, BenchmarkDefaults).agent_inside


def check_inside(agent: Agent, benchmark: Benchmark, home: Home, isolation: str) -> None:
    """Check that an agent can be put into the sandboxes of a benchmark.

    Raises:
        WrongUseError: it cannot; the text says what to do.
    """
    where = f"--tools all puts an agent into the sandbox of a {benchmark.name.partition(':')[0]} task"
    if not agent.capabilities.inside:
        raise WrongUseError(
            f"{where}, and agent {agent.name!r} cannot be started there. Leave out --tools all: it then "
            "works with the task's own tools, such as bash"
        )
    if home == "native":
        raise WrongUseError(f"{where}, where your own home is not. Leave out --home native or --tools all")
    if isolation not in ("auto", LEVEL):
        raise WrongUseError(f"{where}, which isolates it. Leave out --isolation {isolation}")


def check_login(lent: LentLogin | None) -> None:
    """Check that an agent's login can go with it.

    Raises:
        WrongUseError: it is a file of the user.
    """
    if lent is not None:
        raise WrongUseError(
            f"--tools all puts the agent into the task's sandbox, and the login in {lent.paths[0]} is not "
            "lent there. Set a key in the environment, name an endpoint with --base-url, or leave it out"
        )


def door_of(world: World | None) -> Door:
    """Return the door of a world's sandbox.

    Raises:
        BenchError: nothing of the machine can run in it.
    """
    sandbox = world.sandbox if isinstance(world, ShellWorld) else None
    if not isinstance(sandbox, BwrapSandbox) or not sandbox.door:
        raise BenchError(
            "the agent cannot be started in this task's sandbox: its engine has no way in. Use the engine "
            "bwrap, or leave out --tools all"
        )
    base = sandbox.enforced.base
    if base != HOST_BASE:
        raise BenchError(
            f"the agent cannot be started in this task's sandbox: its system is {base}, not this machine's, "
            "and its program needs this machine's libraries. Leave out --tools all for such tasks"
        )
    return Door(sandbox, sandbox.door, sandbox.deaths)
