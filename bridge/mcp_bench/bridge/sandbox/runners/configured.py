"""Runners: machines that the operator lends to sandboxes. `MCP_BENCH_RUNNERS` names a file.

runners:
  - {name: box1, kind: ssh, host: me@box1, options: [-p, "2222"], slots: 2}
  - {name: cluster, kind: slurm, options: [--partition=cpu, --time=60], slots: 8}
  - {name: crate, kind: container, command: [docker, exec, -i, crate]}
  - {name: here, kind: local}

All sandboxes of an episode are on one machine, so that they can be compared. A slot is a lock on a file of
the home: several commands share the slots. A machine that failed is left out for a while.
"""

from __future__ import annotations

import fcntl
import os
import shlex
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Literal

import anyio
import click
from pydantic import Field, PositiveFloat, PositiveInt, ValidationError, model_validator

from mcp_bench.bridge.sandbox.bwrap import Bwrap
from mcp_bench.bridge.sandbox.engine import AUTO, Engine, choose
from mcp_bench.bridge.sandbox.kept_layers import most_bytes
from mcp_bench.bridge.sandbox.runners import slurm
from mcp_bench.bridge.sandbox.runners.remote import BOOT, Remote
from mcp_bench.servers.base_model import Model
from mcp_bench.servers.errors import SandboxError, WrongUseError, suggestion
from mcp_bench.servers.home import expanded, home
from mcp_bench.servers.sandbox import Enforced, SandboxSpec
from mcp_bench.servers.yaml_file import read_yaml

VARIABLE = "MCP_BENCH_RUNNERS"
SSH = ("ssh", "-T", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10")
"""Never asks. A connection that says nothing for half a minute has ended:"""
ALIVE = ("-o", "ServerAliveInterval=10", "-o", "ServerAliveCountMax=3")
LOOK_SECONDS = 0.2
"""Between two looks for a free slot."""


class Runner(Model):
    """One machine."""

    name: str = Field(pattern=r"^[A-Za-z0-9_.-]+$")
    kind: Literal["container", "local", "slurm", "ssh"]
    host: str = ""
    """For `ssh`: as on its command line."""
    command: tuple[str, ...] = ()
    """For `container`: starts a program in it, with our standard streams."""
    options: tuple[str, ...] = ()
    """For `ssh`, and for the `salloc` of `slurm`."""
    python: str = "python3"
    """Over there: 3.11 or later."""
    slots: PositiveInt = 1
    """Episodes at a time."""
    cooldown: PositiveFloat = 60.0
    """Seconds for which a machine that failed is left out."""

    @model_validator(mode="after")
    def _whole(self) -> Runner:
        if self.kind == "ssh" and (not self.host or self.host.startswith("-")):
            raise ValueError("a runner of kind ssh needs a host")
        if self.kind == "container" and not self.command:
            raise ValueError("a runner of kind container needs a command, such as [docker, exec, -i, BOX]")
        return self


class RunnersFile(Model):
    runners: tuple[Runner, ...] = Field(min_length=1)


def configured() -> tuple[Runner, ...]:
    """Return the runners of the operator's file. Without one there are none: sandboxes are here.

    Raises:
        WrongUseError: the file is broken; the text names the line and the key.
    """
    if not (named := os.environ.get(VARIABLE)):
        return ()
    file = read_yaml(expanded(named))
    try:
        found = RunnersFile.model_validate(file.content).runners
    except ValidationError as error:
        first = min(error.errors(), key=lambda one: one["type"] != "extra_forbidden")
        place = [part for part in first["loc"] if isinstance(part, (str, int))]
        words, known = first["msg"], RunnersFile if len(place) == 1 else Runner
        if first["type"] == "extra_forbidden":
            words = f"unknown key{suggestion(str(place[-1]), known.model_fields)}"
        raise WrongUseError(
            f"{file.path}:{file.line(place)}: {'.'.join(map(str, place))}: {words}"
        ) from error
    names = [runner.name for runner in found]
    if twice := next((name for name in names if names.count(name) > 1), ""):
        raise WrongUseError(f"{file.path}: two runners have the name {twice}")
    return found


def check_sandboxes(engine: str) -> None:
    """Check that there are runners, or that sandboxes can be started here; warn where they protect less.

    Args:
        engine: the one to use; see `choose`.

    Raises:
        WrongUseError: the file of the runners is broken, or they do not have this engine; or the limit of
            kept layers is no number.
        SandboxError: no sandbox can be started here, and there are no runners.
    """
    most_bytes()
    if not configured():
        if weaker := choose(engine).support().advice:
            click.echo(f"Warning: {weaker}", err=True)
    elif engine not in ("", AUTO, Bwrap.name):
        raise WrongUseError(
            f"the runners of {VARIABLE} have sandboxes of bwrap, and the engine {engine} is asked for. "
            "Leave out one of both"
        )


@dataclass
class Slot:
    """A place for one episode on a machine."""

    runner: Runner
    engine: Engine


@asynccontextmanager
async def leased(runners: Sequence[Runner], lost: Mapping[str, str]) -> AsyncIterator[Slot]:
    """Wait for a free slot on a machine that works.

    Args:
        lost: names of machines that are not tried again, with the reasons.

    Raises:
        RunnerLostError: the machine has no place for sandboxes. Others may have.
        SandboxError: every machine has failed a moment ago; the text says why.
    """
    runner, lock = await _taken(runners, lost)
    try:
        async with _reached(runner, partial(_mark, runner)) as engine:
            yield Slot(runner, engine)
    finally:
        os.close(lock)


async def tried(runner: Runner) -> Enforced:
    """Start a sandbox on a machine, and return what it enforces: also where no slot is free.

    A machine that was left out, and works again, is used from now on.

    Raises:
        SandboxError: there is no way to the machine, or it cannot have sandboxes.
    """
    async with _reached(runner, lambda _: None) as engine, engine.sandbox(SandboxSpec()) as sandbox:
        (home() / "runners" / f"{runner.name}.failed").unlink(missing_ok=True)
        return sandbox.enforced


@asynccontextmanager
async def _reached(runner: Runner, lost: Callable[[str], None]) -> AsyncIterator[Engine]:
    if runner.kind == "local":
        yield Bwrap()
    elif runner.kind == "slurm":
        async with slurm.allocated(runner.name, runner.options, lost) as step:
            yield Remote(runner.name, [*step, *_boot(runner)], lost)
    else:
        yield Remote(runner.name, connection(runner), lost)


def connection(runner: Runner) -> list[str]:
    """Return the command that starts the other machine's side."""
    if runner.kind == "ssh":
        return [*SSH, *ALIVE, *runner.options, "--", runner.host, f"exec {shlex.join(_boot(runner))}"]
    return [*runner.command, *_boot(runner)]


def _boot(runner: Runner) -> list[str]:
    return [runner.python, "-I", "-S", "-c", BOOT]


async def _taken(runners: Sequence[Runner], lost: Mapping[str, str]) -> tuple[Runner, int]:
    folder = home() / "runners"
    folder.mkdir(parents=True, exist_ok=True)
    while True:
        dead = {one.name: why for one in runners if (why := lost.get(one.name) or _failed(one))}
        if len(dead) == len(runners):
            words = "; ".join(f"{name}: {why}" for name, why in dead.items())
            raise SandboxError(f"no runner works: {words}")
        for runner in runners:
            for number in range(0 if runner.name in dead else runner.slots):
                lock = os.open(
                    folder / f"{runner.name}.{number}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600
                )
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    return runner, lock
                except BlockingIOError:
                    os.close(lock)
        await anyio.sleep(LOOK_SECONDS)


def _mark(runner: Runner, why: str) -> None:
    """Leave a machine out for a while: for all commands of this home."""
    with suppress(OSError):
        (home() / "runners" / f"{runner.name}.failed").write_text(why, encoding="utf-8")


def _failed(runner: Runner) -> str:
    """Return why a machine is left out; an empty text: it is not."""
    mark = home() / "runners" / f"{runner.name}.failed"
    try:
        if 0 <= time.time() - mark.stat().st_mtime < runner.cooldown:  # a clock can be set back
            return mark.read_text(encoding="utf-8") or "it failed"
    except OSError:
        pass
    return ""
