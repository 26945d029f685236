"""`bwrap`: a sandbox of an overlay in a user namespace, and bubblewrap. It needs no privilege and no image.

With root, each sandbox has a user of its own. Otherwise, its root is this user by name, without any right
outside the sandbox; with subordinate ids (subuid(5)), it has more users.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
from anyio.abc import ByteReceiveStream, ByteSendStream

from mcp_bench.bridge.isolation import support
from mcp_bench.bridge.isolation.support import Support
from mcp_bench.bridge.process.agent import INTERPRETER, LaunchError, piped_process
from mcp_bench.bridge.sandbox import keeper, kept_layers
from mcp_bench.bridge.sandbox.channel import packed
from mcp_bench.bridge.sandbox.leftovers import remove_leftovers_once
from mcp_bench.bridge.sandbox.machine import BLOCK, keepers_place
from mcp_bench.bridge.sandbox.session import REPLY_SECONDS, Session, enter_aside, mounted_mode
from mcp_bench.bridge.sandbox.skeleton import PATH
from mcp_bench.servers.sandbox import HOST_BASE, Enforced, SandboxError, SandboxSpec

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
        with kept_layers.used(spec.kept) as kept:
            async with AsyncExitStack() as held:
                sandbox = await _started(spec, held, kept)
                if kept is not None and not sandbox.maps_owners:  # nothing in the layer could be changed
                    await held.aclose()
                    sandbox = await _started(spec, held, None)
                yield sandbox


async def _started(spec: SandboxSpec, held: AsyncExitStack, kept: Path | None) -> BwrapSandbox:
    """Start a sandbox, which ends when `held` is closed.

    Args:
        kept: a layer to begin with.

    Raises:
        SandboxError: it could not be started.
    """
    host, network = spec.base == HOST_BASE, spec.network == "machine"
    place = enter_aside(held, keepers_place(spec.limits, host=host, network=network))
    folder = Path(place["folder"])
    log = folder / "keeper.log"
    try:
        process, requests, replies = await held.enter_async_context(piped_process(log))
        await process.launch(
            [INTERPRETER, "-I", "-S", keeper.__file__], {}, folder, file_bytes=spec.limits.storage
        )
    except LaunchError as error:
        raise SandboxError(f"a sandbox cannot be started: {error}") from error
    sandbox = BwrapSandbox(spec, requests, replies, log)
    held.push_async_callback(sandbox.discarded)
    layers = layers_of(spec) if kept is None else [str(kept), *layers_of(spec)]
    described = description(spec, place, layers)
    await sandbox.begin(described, kept=kept is not None)
    sandbox.door = {**described, "supervisor": process.supervisor_pid}
    return sandbox


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
        "gpus": spec.gpus,
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
        self.maps_owners = True
        """Whether the files of its layers that belong to root belong to its root."""
        self._many_users = self._needs_discard = False
        self._first: Path | None = None
        """Its files, if they are on this machine and it was never renewed."""
        self._owner: kept_layers.Owner = owner(None, None)

    async def begin(self, description: dict[str, Any], machine: str = "", *, kept: bool = False) -> None:
        """Send the description, and wait until the sandbox has started.

        Args:
            machine: the runner that lends the machine, if it is another one.
            kept: it begins with files that were kept.
        """
        self._needs_discard = description["uid"] is None
        if not machine:
            self._first = Path(description["state"], "files/upper-0")
            self._owner = owner(description["uid"], description["block"])
        await self._write(packed(description))
        head = await self._until_started()
        uid, facts = description["uid"], head["facts"]
        self._many_users = facts["users"] == "many"
        self.maps_owners = facts["base_owner"] == "root"
        self._enforced = Enforced(
            engine="bwrap",
            version=description["version"],
            user="own-namespace" if uid is None else f"uid:{uid}",
            network=self._spec.network,
            memory="cgroup" if description["limit_memory"] else "measured",
            cpus="affinity" if description["limit_cpus"] else "cgroup",
            base=self._spec.base,
            kept=kept,
            machine=machine,
            probes={name: passed for name, (passed, _) in head["probes"].items()},
        )

    async def renew(
        self, mounts: Mapping[str, Mapping[str, bytes]] | None = None, *, fresh: bool = False
    ) -> None:
        self._first = None
        trees = {}
        for folder, files in (mounts or {}).items():
            self._number += 1
            tree = trees[folder] = str(self._number)
            listed = [[path, mounted_mode(path, data), len(data)] for path, data in files.items()]
            body = b"".join(files.values())
            await self._quick({"op": "place", "tree": tree, "files": listed}, body, subject=folder)
        async with self._lock:
            self.over = ""
            await self._until_started(await self._ask({"op": "renew", "mounts": trees, "fresh": fresh}))

    async def commit(self, *, keep: str = "", trusted: bool = True) -> None:
        first, self._first = self._first, None
        async with self._lock:
            self.over = ""
            await self._until_started(await self._ask({"op": "commit", "trusted": trusted}))
            if keep and trusted and first is not None:  # nothing writes to it any more
                await anyio.to_thread.run_sync(kept_layers.keep, keep, first, self._owner)

    async def discarded(self) -> None:
        with anyio.CancelScope(shield=True):
            await self.discard()

    async def discard(self) -> None:
        """Remove files that only the sandbox's root can remove."""
        if self._many_users and self._needs_discard:
            with anyio.move_on_after(REPLY_SECONDS):
                try:
                    await self._quick({"op": "discard"}, subject="the files")
                except SandboxError:
                    return  # they stay


def owner(uid: int | None, block: int | None) -> kept_layers.Owner:
    """Return how to store the owners of a sandbox's files: as its layers have them."""
    if uid is None:
        return {os.geteuid(): os.geteuid(), os.getegid(): os.getegid()}.__getitem__
    assert block is not None  # noqa: S101 - root has both

    def stored(found: int) -> int:
        if found != uid and not 0 < found - block < BLOCK:
            raise KeyError(found)
        return 0 if found == uid else found - block

    return stored
