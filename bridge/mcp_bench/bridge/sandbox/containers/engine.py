"""`podman` and `docker`: sandboxes as containers, for worlds whose base is an image."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import cache

import anyio

from mcp_bench.bridge.isolation.support import Support
from mcp_bench.bridge.isolation.uid import leased_uid
from mcp_bench.bridge.sandbox.containers import python
from mcp_bench.bridge.sandbox.containers.images import host_mounts, image
from mcp_bench.bridge.sandbox.containers.leftovers import LABEL, owner, remove_leftovers_once
from mcp_bench.bridge.sandbox.containers.program import (
    Program,
    call,
    found,
    last_words,
    mount_words,
    own_processes,
    run_words,
    version,
)
from mcp_bench.bridge.sandbox.containers.sandbox import Container, ContainerSandbox
from mcp_bench.bridge.sandbox.leftovers import state_folder
from mcp_bench.bridge.sandbox.machine import BLOCK, first_of_block
from mcp_bench.bridge.sandbox.session import enter_aside
from mcp_bench.servers.sandbox import HOST_BASE, SandboxError, SandboxLimits, SandboxSpec

TRIAL = "print('works')"


class Containers:
    """One of the two engines."""

    runs_images = True

    def __init__(self, program: Program) -> None:
        self.name = program.name
        self._program = program

    def support(self) -> Support:
        return support(self._program)

    @asynccontextmanager
    async def sandbox(self, spec: SandboxSpec) -> AsyncIterator[ContainerSandbox]:
        """Start a sandbox; on exit, all of its processes and files are gone.

        Raises:
            SandboxError: it could not be started.
        """
        program = self._program
        if spec.gpus:
            raise SandboxError(f"{self.name} gives no GPUs to sandboxes here: use --sandbox bwrap")
        await anyio.to_thread.run_sync(remove_leftovers_once, program)
        name = await anyio.to_thread.run_sync(image, program, spec.base)
        variant = await anyio.to_thread.run_sync(working_variant, program)
        async with AsyncExitStack() as held:
            own = program.maps_users and os.geteuid() == 0
            uid = first_of_block(held.enter_context(leased_uid())) if own else None
            folder = enter_aside(held, state_folder(uid))
            mounts, emptied = host_mounts() if spec.base == HOST_BASE else ({}, ())
            words = options(program, variant, spec.limits, uid, network=spec.network == "machine")
            container = Container(
                program, image=name, options=tuple(words), mounts=mounts, emptied=emptied, folder=folder
            )
            sandbox = ContainerSandbox(spec, container, uid)
            try:
                await sandbox.begin()
                yield sandbox
            finally:
                with anyio.CancelScope(shield=True):
                    await sandbox.aclose()


def options(
    program: Program, variant: tuple[str, ...], limits: SandboxLimits, uid: int | None, *, network: bool
) -> list[str]:
    """Return the options of `run` for one sandbox, without its mounts and names."""
    words = [
        *variant,
        *program.options,
        *run_words(limits, network=network, cgroups="--cgroups=disabled" not in variant),
    ]
    if program.maps_users:
        words += own_processes()
    if uid is not None:
        # one range: the overlays of podman 4.3 cannot be mounted with two
        words += [f"--{kind}map=0:{uid}:{BLOCK}" for kind in ("uid", "gid")]
    return words


@cache
def support(program: Program) -> Support:
    """Start a container that does nothing, and return whether that works.

    Where it works and is not sound, `advice` says why.
    """
    advice = f"install and start {program.name}: `{program.name} run --network=none IMAGE true` must work"
    try:
        path = found(program)
        working_variant(program)
    except SandboxError as error:
        return Support(False, str(error), advice)
    return Support(True, f"{program.name} {version(program)}, {path}", weakness(program))


def weakness(program: Program) -> str:
    """Return why sandboxes of this program are not sound here, or nothing."""
    if program.maps_users:
        return ""
    done = call(program, "info", "--format", "{{json .SecurityOptions}}")
    if b"name=userns" in done.stdout or b"name=rootless" in done.stdout:
        return ""
    return (
        f"{program.name}'s daemon gives sandboxes this machine's root, so their episodes are not verified. "
        'Set "userns-remap": "default" in /etc/docker/daemon.json and restart it, or take bwrap or podman'
    )


@cache
def working_variant(program: Program) -> tuple[str, ...]:
    """Return the options with which a container can be started.

    Raises:
        SandboxError: none do; the text is the program's.
    """
    name = image(program, HOST_BASE)
    entry, arguments = python.command()
    mounts = mount_words({**python.mounts(), **host_mounts()[0]})
    refused = ""
    for variant in program.variants:
        words = options(program, variant, SandboxLimits(), None, network=False)
        done = call(
            program,
            "run",
            "--rm",
            f"--label={LABEL}={owner()}",
            *words,
            *mounts,
            f"--entrypoint={entry}",
            name,
            *arguments[:-1],
            "-c",
            TRIAL,
        )
        if done.stdout == b"works\n":
            return variant
        refused = refused or last_words(done.stderr)
    raise SandboxError(f"{program.name} cannot start a container: {refused}")
