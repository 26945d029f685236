"""`bwrap`: a sandbox of an overlay in a user namespace, and bubblewrap. It needs no privilege and no image.

With root, each sandbox has a user of its own. Otherwise, its root is this user by name, without any right
outside the sandbox; with subordinate ids (subuid(5)), it has more users.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import anyio
from anyio.abc import ByteReceiveStream, ByteSendStream
from pydantic import TypeAdapter

from mcp_bench.bridge.isolation import support
from mcp_bench.bridge.isolation.support import Support
from mcp_bench.bridge.process.agent import INTERPRETER, LaunchError, piped_process
from mcp_bench.bridge.sandbox import keeper
from mcp_bench.bridge.sandbox.channel import Incoming, Message, packed
from mcp_bench.bridge.sandbox.leftovers import remove_leftovers_once
from mcp_bench.bridge.sandbox.machine import keepers_place
from mcp_bench.servers.errors import SandboxEndedError
from mcp_bench.servers.sandbox import (
    HOST_BASE,
    OUTPUT_BYTES,
    READ_BYTES,
    Answers,
    CommandResult,
    Enforced,
    FileChange,
    SandboxError,
    SandboxSpec,
)

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
ENVIRONMENT = {"PATH": PATH, "HOME": "/root", "LANG": "C.UTF-8", "TERM": "dumb", "USER": "root"}
REPLY_SECONDS = 60.0
"""For an answer that depends on nothing in the sandbox."""
CHANGES = TypeAdapter(tuple[FileChange, ...])
STARTED = "started"


class Bwrap:
    name = "bwrap"

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
        "limits": spec.limits.model_dump(),
        "env": {**ENVIRONMENT, **spec.env},
        "workdir": spec.workdir,
    }


class BwrapSandbox:
    """A running sandbox: the referee's side of `keeper.py`."""

    def __init__(
        self, spec: SandboxSpec, requests: ByteSendStream, replies: ByteReceiveStream, log: Path
    ) -> None:
        self.over = ""
        self.door: dict[str, Any] = {}
        """How another process enters it (enter.py): what the keeper got, and the keeper's supervisor."""
        self._spec = spec
        self._requests, self._replies, self._log = requests, replies, log
        self._incoming, self._waiting = Incoming(), list[Message]()
        self._number = 0
        self._enforced: Enforced | None = None
        self._lock = anyio.Lock()
        self._many_users = self._needs_discard = False

    @property
    def enforced(self) -> Enforced:
        if self._enforced is None:
            raise SandboxError("the sandbox has not started")
        return self._enforced

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

    async def run(
        self, command: str, *, seconds: float | None = None, output_bytes: int = OUTPUT_BYTES,
        progress: Callable[[str], Awaitable[None]] | None = None,
    ) -> CommandResult:  # fmt: skip
        limit = self._spec.limits.seconds if seconds is None else seconds
        head = {"op": "run", "seconds": limit, "most": output_bytes}
        async with self._lock:
            number = await self._ask(head, command.encode())
            begin = bytearray()
            try:
                while True:
                    answer, body = await self._answer(number)
                    if "output" not in answer:
                        break
                    begin += body
                    if progress is not None:
                        await progress(body.decode(errors="replace"))
            except SandboxError:  # nothing runs any more
                raise
            except BaseException:
                with anyio.CancelScope(shield=True), anyio.move_on_after(REPLY_SECONDS):
                    await self._interrupt(number)
                raise
        left_out = answer["left_out"]
        gap = f"\n... {left_out} bytes left out ...\n".encode() if left_out else b""
        return CommandResult(
            output=(bytes(begin) + gap + body).decode(errors="replace"),
            code=answer["code"],
            timed_out=answer["timed_out"],
            left_out=left_out,
            shell_ended=answer["shell_ended"],
        )

    async def _interrupt(self, number: int) -> None:
        """End a command whose caller has gone, and take what it still says."""
        await self._ask({"op": "interrupt"})
        while "output" in (await self._answer(number))[0]:
            pass

    async def read(self, path: str, *, most: int = READ_BYTES) -> bytes:
        return (await self._quick({"op": "read", "path": path, "most": most}, subject=path))[1]

    async def write(self, path: str, data: bytes, *, mode: int = 0o644) -> None:
        await self._quick({"op": "write", "path": path, "mode": mode}, data, subject=path)

    async def changes(self) -> tuple[FileChange, ...]:
        _, body = await self._quick({"op": "changes"}, subject="the changes")
        return CHANGES.validate_json(body)

    async def start(self, argv: Sequence[str], *, seconds: float, alone: bool = True) -> Answers:
        return await self._asked(
            {"op": "start", "argv": list(argv), "alone": alone}, b"", seconds, READ_BYTES
        )

    async def ask(self, questions: Sequence[bytes], *, seconds: float, most: int = READ_BYTES) -> Answers:
        sizes = [len(question) for question in questions]
        return await self._asked({"op": "ask", "sizes": sizes}, b"".join(questions), seconds, most)

    async def _asked(self, head: dict[str, Any], body: bytes, seconds: float, most: int) -> Answers:
        async with self._lock:
            number = await self._ask({**head, "seconds": seconds, "most": most}, body)
            try:
                found, answers = await self._answer(number, "the program")
            except SandboxError:
                raise
            except BaseException:
                with anyio.CancelScope(shield=True), anyio.move_on_after(REPLY_SECONDS):
                    await self._ask({"op": "interrupt"})
                    await self._answer(number)
                raise
        cut = list(accumulate(found["sizes"], initial=0))
        return Answers(
            bodies=tuple(answers[a:b] for a, b in pairwise(cut)), cpu_seconds=tuple(found["cpu"]),
            seconds=found["wall"], ended=found["ended"], log=found["log"],
        )  # fmt: skip

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

    async def halt(self) -> None:
        await self._quick({"op": "halt"}, subject="the sandbox")

    async def discard(self) -> None:
        """Remove files that only the sandbox's root can remove."""
        if self._many_users and self._needs_discard:
            with anyio.move_on_after(REPLY_SECONDS):
                try:
                    await self._quick({"op": "discard"}, subject="the files")
                except SandboxError:
                    return  # they stay

    async def _quick(self, head: dict[str, Any], body: bytes = b"", *, subject: str) -> Message:
        """Return the answer to a message that takes no time in the sandbox.

        Raises:
            SandboxError: it says what failed, or nothing at all.
        """
        async with self._lock:
            try:
                with anyio.fail_after(REPLY_SECONDS):
                    return await self._answer(await self._ask(head, body), subject)
            except TimeoutError:
                raise SandboxError(
                    f"{subject}: the sandbox did not answer for {REPLY_SECONDS:.0f} s"
                ) from None

    async def _ask(self, head: dict[str, Any], body: bytes = b"") -> int:
        self._number += 1
        await self._write(packed({**head, "id": self._number}, body))
        return self._number

    async def _write(self, data: bytes) -> None:
        try:
            await self._requests.send(data)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            raise self._lost() from None

    async def _answer(self, number: int, subject: str = "the command") -> Message:
        """Return the next message with an id.

        Raises:
            SandboxError: it is an error, or the sandbox has ended.
        """
        while True:
            head, body = await self._message()
            if "died" in head:
                raise SandboxEndedError(
                    "every process in the sandbox was killed, the command's shell too. It was started again "
                    "over its files"
                )
            if head.get("id") == number:
                if "error" in head:
                    raise SandboxError(f"{subject}: {head['error']}")
                return head, body

    async def _until_started(self) -> dict[str, Any]:
        with anyio.move_on_after(REPLY_SECONDS):
            while STARTED not in (found := await self._message())[0]:
                pass
            return found[0]
        raise SandboxError(f"the sandbox did not start within {REPLY_SECONDS:.0f} s")

    async def _message(self) -> Message:
        while not self._waiting:
            try:
                self._waiting += self._incoming.feed(await self._replies.receive(1 << 20))
            except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
                raise self._lost() from None
        head, body = self._waiting.pop(0)
        if "over" in head:
            self.over = head["over"]
            raise SandboxEndedError(f"the sandbox was ended: {self.over}")
        if "failed" in head:
            raise SandboxError(f"a sandbox cannot be started: {head['failed']}")
        return head, body

    def _lost(self) -> SandboxError:
        words = self._log.read_text(errors="replace").strip().rpartition("\n")[2]
        return SandboxError(f"the sandbox's keeper ended: {words or 'it was killed'}")
