"""`bwrap`: a sandbox of an overlay in a user namespace, and bubblewrap. It needs no privilege and no image.

With root, each sandbox has a user of its own. Otherwise, its root is this user by name, without any right
outside the sandbox; with subordinate ids (subuid(5)), it has more users.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import AsyncIterator, Mapping
from contextlib import ExitStack, asynccontextmanager, nullcontext
from functools import cache
from pathlib import Path
from typing import Any

import anyio

from mcp_bench.bridge.isolation import support
from mcp_bench.bridge.isolation.hidden import checkouts, hidden
from mcp_bench.bridge.isolation.support import Support
from mcp_bench.bridge.isolation.uid import UIDS, leased_uid
from mcp_bench.bridge.process.agent import INTERPRETER, LaunchError, piped_process
from mcp_bench.bridge.sandbox import keeper, probe
from mcp_bench.bridge.sandbox.cgroups import Groups, groups
from mcp_bench.bridge.sandbox.channel import packed
from mcp_bench.bridge.sandbox.leftovers import remove_leftovers_once, state_folder
from mcp_bench.bridge.sandbox.session import REPLY_SECONDS, Session
from mcp_bench.servers.home import home
from mcp_bench.servers.sandbox import (
    HOST_BASE,
    Enforced,
    SandboxError,
    SandboxSpec,
)

BLOCKS = 0x10000000
"""The first of the ids that sandboxes of root use besides their user's: 65536 for each of `UIDS`."""
BLOCK = 1 << 16
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
        with ExitStack() as held:
            root = os.geteuid() == 0
            uid = held.enter_context(leased_uid() if root else nullcontext())
            folder = held.enter_context(state_folder(uid))
            made = held.enter_context(
                groups(f"{os.getpid()}-{folder.name}", spec.limits) if root else nullcontext(Groups())
            )
            log = folder / "keeper.log"
            try:
                async with piped_process(log) as (process, requests, replies):
                    await process.launch(
                        [INTERPRETER, "-I", "-S", keeper.__file__], {}, folder, file_bytes=spec.limits.storage
                    )
                    sandbox = BwrapSandbox(spec, requests, replies, log)
                    try:
                        await sandbox.begin(description(spec, folder / "state", uid, made), made)
                        yield sandbox
                    finally:
                        with anyio.CancelScope(shield=True):
                            await sandbox.discard()
            except LaunchError as error:
                raise SandboxError(f"a sandbox cannot be started: {error}") from error


def description(spec: SandboxSpec, state: Path, uid: int | None, made: Groups) -> dict[str, Any]:
    """Return what the keeper needs; see `keeper.Spec`.

    Raises:
        SandboxError: a folder of the base is missing.
    """
    layers = [] if spec.base == HOST_BASE else [spec.base]
    layers = [str(Path(layer).resolve()) for layer in (*reversed(spec.layers), *layers)]
    for layer in layers:
        if not Path(layer).is_dir():
            raise SandboxError(f"the sandbox's base {layer} is no folder. Name a folder with a whole system")
    program = shutil.which("bwrap")
    if program is None:
        raise SandboxError("bwrap is not on PATH: install the package bubblewrap")
    return {
        "state": str(state),
        "layers": layers,
        "host": spec.base == HOST_BASE,
        "masked": masked() if spec.base == HOST_BASE else (),
        "uid": uid,
        "block": None if uid is None else first_of_block(uid),
        "network": spec.network == "machine",
        "limits": spec.limits.model_dump(),
        "cgroups": [str(folder) for folder in made.folders],
        "limit_cpus": not made.cpus,
        "namespaces": True,
        "env": {**ENVIRONMENT, **spec.env},
        "workdir": spec.workdir,
        "bwrap": program,
        "sized": b"--size" in bwrap_help(program),
        "probes": probe.arguments(
            str(state), str(home().resolve()), 0 if uid else None, network=spec.network == "machine"
        ),
    }


def first_of_block(uid: int) -> int:
    """Return the first of the 65536 ids that only the sandbox with this user has."""
    return BLOCKS + (uid - UIDS.start) * BLOCK


@cache
def masked() -> tuple[str, ...]:
    """Return the folders of /usr that a sandbox must not see: what this Python imports, and its checkouts."""
    places = sorted(hidden() | checkouts())
    return tuple(place for place in places if place.startswith("/usr/") and Path(place).is_dir())


@cache
def bwrap_help(program: str) -> bytes:
    return subprocess.run([program, "--help"], capture_output=True, check=False).stdout


@cache
def bwrap_version(program: str) -> str:
    done = subprocess.run([program, "--version"], capture_output=True, check=False, text=True)
    return done.stdout.strip().rpartition(" ")[2]


class BwrapSandbox(Session):
    """A running sandbox: the referee's side of `keeper.py`."""

    _many_users = False

    async def begin(self, description: dict[str, Any], made: Groups) -> None:
        await self._write(packed(description))
        head = await self._until_started()
        uid, facts = description["uid"], head["facts"]
        self._many_users = facts["users"] == "many"
        self._enforced = Enforced(
            engine="bwrap",
            version=bwrap_version(description["bwrap"]),
            user="own-namespace" if uid is None else f"uid:{uid}",
            network=self._spec.network,
            memory="cgroup" if made.memory else "measured",
            cpus="cgroup" if made.cpus else "affinity",
            base=self._spec.base,
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
            await self._ask({"op": "renew", "mounts": trees, "fresh": fresh})
            await self._until_started()

    async def commit(self) -> None:
        async with self._lock:
            await self._ask({"op": "commit"})
            await self._until_started()

    async def discard(self) -> None:
        """Remove files that only the sandbox's root can remove."""
        if self._many_users and os.geteuid() != 0:
            with anyio.move_on_after(REPLY_SECONDS):
                try:
                    await self._quick({"op": "discard"}, subject="the files")
                except SandboxError:
                    return  # they stay
