"""The referee's side of a running sandbox: messages to the processes that keep it, and their answers.

What differs between engines is in the subclasses: how it starts, and how it starts again over its files.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager, AsyncExitStack, suppress
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any, TypeVar

import anyio
from anyio.abc import ByteReceiveStream, ByteSendStream
from pydantic import TypeAdapter

from mcp_bench.bridge.sandbox.channel import Incoming, Message, packed
from mcp_bench.servers.errors import SandboxEndedError, SandboxLostError
from mcp_bench.servers.sandbox import (
    OUTPUT_BYTES,
    READ_BYTES,
    Answers,
    CommandResult,
    Enforced,
    FileChange,
    SandboxError,
    SandboxSpec,
)

REPLY_SECONDS = 60.0
"""For an answer that depends on nothing in the sandbox."""
CHANGES = TypeAdapter(tuple[FileChange, ...])
STARTED = "started"
T = TypeVar("T")


def mounted_mode(path: str, data: bytes) -> int:
    """Return the mode of a file that `renew` mounts: scripts can be executed."""
    return 0o755 if data.startswith(b"#!") or path.endswith(".sh") else 0o644


def enter_aside(held: AsyncExitStack, place: AbstractContextManager[T]) -> T:
    """Enter a context that `held` leaves in a thread: many files can be removed then."""
    entered = place.__enter__()

    async def leave() -> None:
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(place.__exit__, None, None, None)

    held.push_async_callback(leave)
    return entered


class Session:
    """What every engine's sandbox does alike. Its two ends are pipes."""

    def __init__(
        self, spec: SandboxSpec, requests: ByteSendStream, replies: ByteReceiveStream, log: Path
    ) -> None:
        self.over = ""
        self.deaths = 0
        """How often every process was killed from inside, so that it started again over its files."""
        self._spec = spec
        self._requests, self._replies, self._log = requests, replies, log
        self._incoming, self._waiting = Incoming(), list[Message]()
        self._number = 0
        self._enforced: Enforced | None = None
        self._lock = anyio.Lock()

    @property
    def enforced(self) -> Enforced:
        if self._enforced is None:
            raise SandboxError("the sandbox has not started")
        return self._enforced

    async def run(
        self,
        command: str,
        *,
        seconds: float | None = None,
        output_bytes: int = OUTPUT_BYTES,
        progress: Callable[[str], Awaitable[None]] | None = None,
    ) -> CommandResult:
        limit = self._spec.limits.seconds if seconds is None else seconds
        head = {"op": "run", "seconds": limit, "most": output_bytes}
        given = command.encode("utf-8", "replace")
        async with self._lock:
            begin = bytearray()
            try:
                number = await self._ask(head, given)
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
                    await self._interrupt(self._number)
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
        """End a command or questions whose caller has gone, and take what is still said."""
        await self._ask({"op": "interrupt"})
        while "output" in (await self._answer(number))[0]:
            pass

    async def read(self, path: str, *, most: int = READ_BYTES) -> bytes:
        return (await self._quick({"op": "read", "path": path, "most": most}, subject=path))[1]

    async def write(self, path: str, data: bytes, *, mode: int = 0o644) -> None:
        await self._quick({"op": "write", "path": path, "mode": mode}, data, subject=path)

    async def changes(self) -> tuple[FileChange, ...]:
        seconds = self._spec.limits.changes_seconds
        asked = {"op": "changes", "seconds": seconds}
        _, body = await self._quick(asked, subject="the changes", seconds=seconds + REPLY_SECONDS)
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
            try:
                number = await self._ask({**head, "seconds": seconds, "most": most}, body)
                found, answers = await self._answer(number, "the program")
            except SandboxError:
                raise
            except BaseException:
                with anyio.CancelScope(shield=True), anyio.move_on_after(REPLY_SECONDS):
                    await self._interrupt(self._number)
                raise
        cut = list(accumulate(found["sizes"], initial=0))
        return Answers(
            bodies=tuple(answers[a:b] for a, b in pairwise(cut)),
            cpu_seconds=tuple(found["cpu"]),
            clock=found["clock"],
            seconds=found["wall"],
            waited=found["waited"],
            ended=found["ended"],
            log=found["log"],
        )

    async def halt(self) -> None:
        await self._quick({"op": "halt"}, subject="the sandbox")

    async def _quick(
        self, head: dict[str, Any], body: bytes = b"", *, subject: str, seconds: float = REPLY_SECONDS
    ) -> Message:
        """Return the answer to a message that no program of the sandbox answers.

        Raises:
            SandboxError: it says what failed, or nothing at all.
        """
        async with self._lock:
            try:
                with anyio.fail_after(seconds):
                    return await self._answer(await self._ask(head, body), subject)
            except TimeoutError:
                raise SandboxError(f"{subject}: the sandbox did not answer for {seconds:.0f} s") from None
            except SandboxError:
                raise
            except BaseException:
                # whoever still writes a long answer reads no message: a long one would wait for it for good
                late = anyio.move_on_after(REPLY_SECONDS, shield=True)
                with late, suppress(SandboxError):
                    await self._answer(self._number)
                raise

    async def _ask(self, head: dict[str, Any], body: bytes = b"") -> int:
        """Send a message, all of it even if the caller goes: half of one would spoil the next."""
        self._number += 1
        with anyio.move_on_after(REPLY_SECONDS, shield=True) as late:
            await self._write(packed({**head, "id": self._number}, body))
        if late.cancelled_caught:
            raise SandboxError(f"the sandbox took no message for {REPLY_SECONDS:.0f} s")
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
            if "over" in head:
                self.over = head["over"]
            if head.get("id", number) < number:  # an ended sandbox answers this message, too
                continue
            self._raise_over(head)
            if "died" in head:
                raise SandboxEndedError(
                    "every process in the sandbox was killed, the command's shell too. It was started again "
                    "over its files"
                )
            if head.get("id") == number:
                if "error" in head:
                    kind = SandboxEndedError if self.over else SandboxError
                    raise kind(f"{subject}: {head['error']}")
                return head, body

    async def _until_started(self, number: int = 0) -> dict[str, Any]:
        """Return what is enforced.

        Args:
            number: of the message that starts it.

        Raises:
            SandboxError: it does not start.
        """
        with anyio.move_on_after(REPLY_SECONDS):
            while True:
                head, _ = await self._message()
                if head.get("id", number) < number:  # the sandbox before was ended
                    continue
                self._raise_over(head)
                if "error" in head:
                    raise SandboxError(f"a sandbox cannot be started: {head['error']}")
                if STARTED in head:
                    return head
        raise SandboxError(f"the sandbox did not start within {REPLY_SECONDS:.0f} s")

    async def _message(self) -> Message:
        while not self._waiting:
            try:
                self._waiting += self._incoming.feed(await self._replies.receive(1 << 20))
            except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
                raise self._lost() from None
        head, body = self._waiting.pop(0)
        self.deaths += "died" in head
        if "failed" in head:
            raise SandboxError(f"a sandbox cannot be started: {head['failed']}")
        return head, body

    def _raise_over(self, head: dict[str, Any]) -> None:
        if "over" in head:
            self.over = head["over"]
            raise SandboxEndedError(f"the sandbox was ended: {self.over}")

    def _lost(self) -> SandboxError:
        """Return the error for a sandbox that has gone. Nothing in it can bring that about."""
        words = self._log.read_text(errors="replace").strip().rpartition("\n")[2]
        return SandboxLostError(f"the sandbox's keeper ended: {words or 'it was killed'}")
