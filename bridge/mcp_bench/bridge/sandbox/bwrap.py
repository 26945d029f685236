"""`bwrap`: a sandbox of an overlay in a user namespace, and bubblewrap. It needs no privilege and no image.

With root, each sandbox has a user of its own. Otherwise, its root is this user by name, without any right
outside the sandbox; with subordinate ids (subuid(5)), it has more users.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
from anyio.abc import ByteReceiveStream, ByteSendStream

from mcp_bench.bridge.isolation import support
from mcp_bench.bridge.isolation.support import Support
from mcp_bench.bridge.process.agent import INTERPRETER, LaunchError, piped_process
from mcp_bench.bridge.sandbox import keeper
from mcp_bench.bridge.sandbox.channel import packed
from mcp_bench.bridge.sandbox.leftovers import remove_leftovers_once
from mcp_bench.bridge.sandbox.machine import keepers_place
from mcp_bench.bridge.sandbox.session import REPLY_SECONDS, Session
from mcp_bench.servers.sandbox import HOST_BASE, Enforced, SandboxError, SandboxSpec

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
ENVIRONMENT = {"PATH": PATH, "HOME": "/root", "LANG": "C.UTF-8", "TERM": "dumb", "USER": "root"}


class Bwrap:
    name = "bwrap"
    runs_images = False

    def support(self) -> Support:
        return support.bwrap()

    @asynccontextmanager
    async def sandbox(self, spec: SandboxSpec) -> AsyncIterator[BwrapSandbox]:
        """Start a sandbox; on exit, all of its processes and files are gone.

        Raises:
            SandboxError: it could not be started.
        """
        await anyio.to_thread.run_sync(remove_leftovers_once)
        host, network = spec.base == HOST_BASE, spec.network == "machine"
        with keepers_place(spec.limits, host=host, network=network) as place:
            folder = Path(place["folder"])
            log = folder / "keeper.log"
            try:
                async with piped_process(log) as (process, requests, replies):
                    await process.launch(
                        [INTERPRETER, "-I", "-S", keeper.__file__], {}, folder, file_bytes=spec.limits.storage
                    )
                    sandbox = BwrapSandbox(spec, requests, replies, log)
                    try:
                        described = description(spec, place, layers_of(spec))
                        await sandbox.begin(described)
                        sandbox.door = {**described, "supervisor": process.supervisor_pid}
                        yield sandbox
                    finally:
                        with anyio.CancelScope(shield=True):
                            await sandbox.discard()
            except LaunchError as error:
                raise SandboxError(f"a sandbox cannot be started: {error}") from error


def layers_of(spec: SandboxSpec) -> list[str]:
    """Return the folders below a sandbox's files, the topmost first.

    Raises:
        SandboxError: one is missing.
    """
    layers = [] if spec.base == HOST_BASE else [spec.base]
    layers = [str(Path(layer).resolve()) for layer in (*reversed(spec.layers), *layers)]
    for layer in layers:
        if not Path(layer).is_dir():
            raise SandboxError(f"the sandbox's base {layer} is no folder. Name a folder with a whole system")
    return layers


def description(spec: SandboxSpec, place: dict[str, Any], layers: Sequence[str]) -> dict[str, Any]:
    """Return what the keeper needs; see `keeper.Spec`.

    Args:
        place: what its machine has prepared (`keepers_place`).
        layers: folders of that machine.
    """
    return {
        **place,
        "layers": list(layers),
        "host": spec.base == HOST_BASE,
        "network": spec.network == "machine",
        "namespaces": True,
        "limits": spec.limits.model_dump(),
        "env": {**ENVIRONMENT, **spec.env},
        "workdir": spec.workdir,
    }


class BwrapSandbox(Session):
    """A running sandbox: the referee's side of `keeper.py`."""

    def __init__(
        self, spec: SandboxSpec, requests: ByteSendStream, replies: ByteReceiveStream, log: Path
    ) -> None:
        super().__init__(spec, requests, replies, log)
        self.door: dict[str, Any] = {}
        """How another process enters it (enter.py): what the keeper got, and the keeper's supervisor."""
        self._many_users = self._needs_discard = False

    async def begin(self, description: dict[str, Any], machine: str = "") -> None:
        """Send the description, and wait until the sandbox has started.

        Args:
            machine: the runner that lends the machine, if it is another one.
        """
        self._needs_discard = description["uid"] is None
        await self._write(packed(description))
        head = await self._until_started()
        uid, facts = description["uid"], head["facts"]
        self._many_users = facts["users"] == "many"
        self._enforced = Enforced(
            engine="bwrap",
            version=description["version"],
            user="own-namespace" if uid is None else f"uid:{uid}",
            network=self._spec.network,
            memory="cgroup" if description["limit_memory"] else "measured",
            cpus="affinity" if description["limit_cpus"] else "cgroup",
            base=self._spec.base,
            machine=machine,
            probes={name: passed for name, (passed, _) in head["probes"].items()},
        )

    async def renew(
        self, mounts: Mapping[str, Mapping[str, bytes]] | None = None, *, fresh: bool = False
    ) -> None:
        trees = {}
        for folder, files in (mounts or {}).items():
            self._number += 1
            tree = trees[folder] = str(self._number)
            listed = [
                [path, 0o755 if data.startswith(b"#!") or path.endswith(".sh") else 0o644, len(data)]
                for path, data in files.items()
            ]
            body = b"".join(files.values())
            await self._quick({"op": "place", "tree": tree, "files": listed}, body, subject=folder)
        async with self._lock:
            self.over = ""
            await self._until_started(await self._ask({"op": "renew", "mounts": trees, "fresh": fresh}))

    async def commit(self) -> None:
        async with self._lock:
            self.over = ""
            await self._until_started(await self._ask({"op": "commit"}))

    async def discard(self) -> None:
        """Remove files that only the sandbox's root can remove."""
        if self._many_users and self._needs_discard:
            with anyio.move_on_after(REPLY_SECONDS):
                try:
                    await self._quick({"op": "discard"}, subject="the files")
                except SandboxError:
                    return  # they stay
