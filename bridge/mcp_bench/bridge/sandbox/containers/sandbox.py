"""A sandbox that is a container: the referee's side of `first_process.py`.

A new start over the files is a new container of the same image. The files that the old one left, and those
of layers and commits, are carried as archives, and put there before any command runs.
"""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
from anyio.lowlevel import RunVar

from mcp_bench.bridge.process.agent import LaunchError, piped_process
from mcp_bench.bridge.sandbox import probe
from mcp_bench.bridge.sandbox.bwrap import ENVIRONMENT
from mcp_bench.bridge.sandbox.channel import Incoming, packed
from mcp_bench.bridge.sandbox.containers import python
from mcp_bench.bridge.sandbox.containers.images import TAR, variables
from mcp_bench.bridge.sandbox.containers.leftovers import LABEL, owner
from mcp_bench.bridge.sandbox.containers.program import (
    Program,
    call,
    environment,
    found,
    last_words,
    mount_words,
    version,
)
from mcp_bench.bridge.sandbox.session import Session, mounted_mode
from mcp_bench.bridge.sandbox.skeleton import trusted_variables
from mcp_bench.servers.errors import SandboxEndedError, SandboxLostError
from mcp_bench.servers.home import home
from mcp_bench.servers.sandbox import Enforced, SandboxError, SandboxSpec

PIECE = 1 << 20
GONE = "its container ended"
STARTING: RunVar[anyio.CapacityLimiter] = RunVar("containers that start")


@dataclass
class Container:
    """How to start containers for one sandbox."""

    program: Program
    image: str
    options: tuple[str, ...]
    mounts: dict[str, str]
    emptied: tuple[str, ...]
    folder: Path
    """The sandbox's, for archives and files to mount."""
    name: str = field(default_factory=lambda: f"mcp-bench-{secrets.token_hex(8)}")

    def command(self, mounts: Mapping[str, str]) -> list[str]:
        """Return the command that starts it, with some more mounts."""
        entry, arguments = python.command()
        empty = self.folder / "empty"
        _open_folder(empty)
        hidden = dict.fromkeys((*self.emptied, *python.emptied()), str(empty))
        places = {**self.mounts, **python.mounts(), **hidden, **mounts}
        return [
            found(self.program),
            "run",
            f"--name={self.name}",
            f"--label={LABEL}={owner()}",
            *self.options,
            *mount_words(places),
            f"--entrypoint={entry}",
            self.image,
            *arguments,
        ]

    def remove(self) -> None:
        """Remove the container and its files."""
        call(self.program, "rm", "--force", self.name)
        self.name = f"mcp-bench-{secrets.token_hex(8)}"

    def ran_out_of_memory(self) -> bool:
        done = call(self.program, "inspect", "--format", "{{.State.OOMKilled}}", self.name)
        return done.stdout.strip() == b"true"


class ContainerSandbox(Session):
    """A running sandbox in a container."""

    def __init__(self, spec: SandboxSpec, container: Container, uid: int | None) -> None:
        self._container, self._uid = container, uid
        self._held = AsyncExitStack()
        self._base: list[Path] = []
        """Archives of files that belong to the base, the lowest first."""
        self._left: Path | None = None
        """Files that the last container left."""
        self._trusted = True
        """No agent has worked on the files of the base."""
        # its streams come with the container
        super().__init__(spec, None, None, container.folder / "container.log")  # type: ignore[arg-type]

    async def begin(self) -> None:
        """Start the first container.

        Raises:
            SandboxError: it could not be started.
        """
        for number, layer in enumerate(self._spec.layers):
            archive = self._container.folder / f"layer-{number}.tar"
            await anyio.to_thread.run_sync(_archive, layer, archive)
            self._base.append(archive)
        head = await self._start({})
        facts, program = head["facts"], self._container.program
        if self._uid is not None:
            user = f"uid:{self._uid}"
        else:
            user = "machine-root" if facts["user"] == 0 else "own-namespace"
        self._enforced = Enforced(
            engine=program.name,
            version=await anyio.to_thread.run_sync(version, program),
            user=user,
            network=self._spec.network,
            memory="cgroup" if facts["memory"] else "measured",
            cpus="cgroup" if facts["cpus"] else "affinity",
            base=self._spec.base,
            probes={name: passed for name, (passed, _) in head["probes"].items()},
        )

    async def renew(
        self, mounts: Mapping[str, Mapping[str, bytes]] | None = None, *, fresh: bool = False
    ) -> None:
        async with self._lock:
            if fresh:
                self._left = None
            else:
                self._left = await self._packed("left.tar", "pack")
            trees = {}
            for number, (folder, files) in enumerate((mounts or {}).items()):
                tree = self._container.folder / f"tree-{secrets.token_hex(4)}-{number}"
                _write_tree(tree, files)
                trees[folder] = str(tree)
            await self._start_again(trees)

    async def commit(self, *, keep: str = "", trusted: bool = True) -> None:
        async with self._lock:
            self._trusted = self._trusted and trusted and self._left is None
            self._left = None  # the new archive has it
            archive = await self._packed(f"base-{len(self._base)}.tar", "commit", trusted=self._trusted)
            self._base.append(archive)
            if not self._trusted:  # this container has the agent's system
                await self._start_again({})

    async def _start_again(self, mounts: Mapping[str, str]) -> None:
        await self._stop()
        self.over = ""
        await self._start(mounts)

    async def aclose(self) -> None:
        """Remove everything."""
        await self._stop()

    async def _packed(self, name: str, op: str, **words: bool) -> Path:
        """Fetch the changed files of the container, whose processes are ended, and return the archive.

        Raises:
            SandboxError: it has ended.
        """
        path = self._container.folder / name
        number = await self._ask({"op": op, **words})
        with path.open("wb") as file:
            while True:
                head, body = await self._answer(number, "the files")
                if "piece" not in head:
                    return path
                file.write(body)

    async def _start(self, mounts: Mapping[str, str]) -> dict[str, Any]:
        """Start a container over the archives, and return what its first process reports."""
        async with starting():
            return await self._start_now(mounts)

    async def _start_now(self, mounts: Mapping[str, str]) -> dict[str, Any]:
        container, spec = self._container, self._spec
        held = AsyncExitStack()
        try:
            process, self._requests, self._replies = await held.enter_async_context(piped_process(self._log))
            argv = container.command(mounts)
            await process.launch(argv, environment(), container.folder, file_bytes=None)
        except LaunchError as error:
            await held.aclose()
            raise SandboxError(f"a sandbox cannot be started: {error}") from error
        self._held, self._incoming, self._waiting = held, Incoming(), []
        network = spec.network == "machine"
        env = {**ENVIRONMENT, **variables(container.program, container.image), **spec.env}
        if self._left is not None or not self._trusted:
            env = trusted_variables(env)
        archives = [(path, True) for path in self._base]
        archives += [] if self._left is None else [(self._left, False)]
        await self._write(
            packed(
                {
                    "limits": spec.limits.model_dump(),
                    "env": env,
                    "workdir": spec.workdir,
                    "network": network,
                    "parts": [base for _, base in archives],
                    "probes": probe.arguments(
                        str(container.folder / "state"), str(home().resolve()), 0, network=network
                    ),
                }
            )
        )
        for path, _ in archives:
            for piece, more in _pieces(path):
                await self._write(packed({"more": more}, piece))
        return await self._until_started()

    async def _stop(self) -> None:
        """End the container and remove it."""
        if self._requests is not None:
            await self._requests.aclose()
        await anyio.to_thread.run_sync(self._container.remove)
        await self._held.aclose()

    def _lost(self) -> SandboxError:
        if self._enforced is not None and self._container.ran_out_of_memory():
            self.over = f"memory: more than {self._spec.limits.memory >> 20} MiB; {GONE}"
            return SandboxEndedError(f"the sandbox was ended: {self.over}")
        words = last_words(self._log.read_bytes()) if self._log.exists() else ""
        return SandboxLostError(f"{self._container.program.name}: {GONE}: {words or 'it was killed'}")


def starting() -> anyio.CapacityLimiter:
    """Return what bounds the containers that start at once: each takes the longer, the more there are."""
    limiter = STARTING.get(None)
    if limiter is None:
        limiter = anyio.CapacityLimiter(2 * (os.cpu_count() or 1))
        STARTING.set(limiter)
    return limiter


def _archive(layer: str, archive: Path) -> None:
    """Write a layer as an archive, whose files belong to root."""
    if not Path(layer).is_dir():
        raise SandboxError(f"the sandbox's layer {layer} is no folder")
    program = shutil.which("tar") or "tar"
    done = subprocess.run(
        [program, *TAR[1:-1], str(archive), "--owner=0", "--group=0", "-C", layer, "."],
        capture_output=True,
        check=False,
    )
    if done.returncode:
        raise SandboxError(f"{layer} cannot be archived: {last_words(done.stderr)}")


def _pieces(path: Path) -> Iterator[tuple[bytes, bool]]:
    """Yield an archive in pieces, each with whether there is more."""
    left = path.stat().st_size
    with path.open("rb") as file:
        while left:
            piece = file.read(PIECE)
            left -= len(piece)
            yield piece, left > 0


def _write_tree(tree: Path, files: Mapping[str, bytes]) -> None:
    _open_folder(tree)
    for name, data in files.items():
        path = tree / name
        for folder in reversed(path.relative_to(tree).parents):
            _open_folder(tree / folder)
        path.write_bytes(data)
        path.chmod(mounted_mode(name, data))


def _open_folder(folder: Path) -> None:
    """Make a folder that the container's users can read, whatever this process's umask is."""
    folder.mkdir(exist_ok=True)
    folder.chmod(0o755)
