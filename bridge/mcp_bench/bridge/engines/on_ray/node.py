"""What runs on a node of a Ray cluster: an actor that starts a referee process there, and passes lines on.

Each attempt is recorded in a folder of its own, which is packed and fetched when the attempt has ended.
Packed folders and messages travel in pieces, in calls and their answers, so that they never lie in Ray's
object store, which processes of the same user can read.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
import tarfile
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import BinaryIO

import anyio

from mcp_bench.bridge.engines.messages import Report, Work
from mcp_bench.bridge.engines.referee import Referee, RefereeError
from mcp_bench.recorder.store.keys import NAME as KEY
from mcp_bench.recorder.store.keys import write_key
from mcp_bench.servers.home import home

PIECE_BYTES = 90_000
"""Ray puts arguments and answers above 100 KiB into its object store."""
BASE_URL = "MCP_BENCH_NODE_BASE_URL"
"""Variable of a node: the model endpoint for agents there, in place of the run's."""
DISTRIBUTION = "mcp-bench-kit"
TOKEN_MODE = ("RAY_AUTH_MODE", "token")


SET_BY_RAY = ("OMP_NUM_THREADS", "CUDA_VISIBLE_DEVICES")
"""Variables that Ray sets in an actor: one thread and, for an actor without GPUs, none of them."""


def without_rays(environ: Mapping[str, str], before: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of an actor without what is Ray's, as the operator of the node has it.

    Agents with `--home native` inherit the environment, and Ray's has the way to its token.

    Args:
        environ: that of the actor.
        before: that of the node's Ray.
    """
    kept = {
        one: value for one, value in environ.items() if not one.startswith("RAY_") and one not in SET_BY_RAY
    }
    return kept | {one: before[one] for one in SET_BY_RAY if one in before}


def _environ_of_ray() -> dict[str, str]:
    """Return the environment of the process that started this one: the one that `ray start` had."""
    try:
        words = Path(f"/proc/{os.getppid()}/environ").read_bytes().split(b"\0")
    except OSError:
        return {}
    pairs = (os.fsdecode(word).partition("=") for word in words if word)
    return {name: value for name, _, value in pairs}


class Node:
    """The actor. All arguments and results are texts and bytes, so that nothing is unpickled but those."""

    def __init__(self) -> None:
        self._folder = Path()
        self._lock: BinaryIO | None = None
        self._referee: Referee | None = None
        self._reports: AsyncIterator[Report] | None = None
        self._received: dict[str, bytes] = {}
        """Beginnings of messages, by name."""
        self._unsaid = b""
        """The rest of a report."""

    def receive(self, name: str, piece: bytes) -> None:
        """Take the next piece of a message, but for the last one."""
        self._received[name] = self._received.get(name, b"") + piece

    async def start(self, name: str, last: bytes, key: str, kit: str) -> str:
        """Start the referee process; return why it cannot record, or an empty text.

        Args:
            name: of the message with a `Work` as JSON; its part is made here.
            last: its last piece.
            key: signs what is recorded here, in hexadecimal digits.
            kit: the version of mcp-bench at home.
        """
        if (own := version(DISTRIBUTION)) != kit:
            return f"it has mcp-bench {own}, and the run's machine {kit}"
        work = self._whole(name, last)
        token, mode = TOKEN_MODE
        if os.environ.get(token) != mode:
            return (
                f"its Ray accepts commands from anybody who can connect to it. Start it with {token}={mode}"
            )
        try:
            self._make_folder(key)
            self._close_sockets()
            given = Work.model_validate_json(work)
            part = self._folder / "parts" / given.run.id
            (part / "logs").mkdir(mode=0o700, parents=True)
            url = os.environ.get(BASE_URL) or given.base_url
            given = given.model_copy(update={"part": str(part), "base_url": url})
            self._referee = await Referee.start(given, environ=without_rays(os.environ, _environ_of_ray()))
        except (RefereeError, OSError) as error:
            self._remove()
            return str(error)
        self._reports = self._referee.reports()
        return ""

    async def send(self, name: str, last: bytes) -> None:
        """Pass on an `Order`; its last piece is here."""
        order = self._whole(name, last)
        if self._referee is not None:
            await self._referee.send_line(order)

    async def report(self) -> bytes:
        """Wait for a `Report`, which is a line, and return its next piece; nothing: the process is gone."""
        if self._reports is None or self._referee is None:
            return b""
        if not self._unsaid:
            async for report in self._reports:
                self._unsaid = report.model_dump_json(exclude_defaults=True).encode() + b"\n"
                break
            else:
                await self._referee.gone()
        piece, self._unsaid = self._unsaid[:PIECE_BYTES], self._unsaid[PIECE_BYTES:]
        return piece

    def last_words(self) -> str:
        """Return how the referee process ended."""
        return "" if self._referee is None else self._referee.how_it_ended()

    async def pack(self, attempt: int) -> int:
        """Pack the folder of an attempt that has ended; return the bytes. 0: there is none."""
        return await anyio.to_thread.run_sync(self._pack, attempt)

    def piece(self, attempt: int, offset: int) -> bytes:
        """Return bytes of a packed folder."""
        with self._packed(attempt).open("rb") as file:
            file.seek(offset)
            return file.read(PIECE_BYTES)

    def drop(self, attempt: int) -> None:
        """Delete what was fetched."""
        self._packed(attempt).unlink(missing_ok=True)
        shutil.rmtree(self._folder / "parts" / str(attempt), ignore_errors=True)

    async def end(self) -> None:
        """End all attempts, and remove the folder."""
        if self._referee is not None:
            await self._referee.end()
        self._remove()

    def _whole(self, name: str, last: bytes) -> str:
        return (self._received.pop(name, b"") + last).decode()

    def _pack(self, attempt: int) -> int:
        folder = self._folder / "parts" / str(attempt)
        if not folder.is_dir():
            return 0
        packed = self._packed(attempt)
        with tarfile.open(packed, "w:gz", compresslevel=1) as tar:
            for name in ("recordings.db", "grades.db", "logs"):
                if (folder / name).exists():
                    tar.add(folder / name, name)
        return packed.stat().st_size

    def _packed(self, attempt: int) -> Path:
        return self._folder / f"{attempt}.tar.gz"

    def _make_folder(self, key: str) -> None:
        """Make the folder of this actor, and remove those of actors that were killed."""
        nodes = home() / "nodes"
        nodes.mkdir(mode=0o700, parents=True, exist_ok=True)
        with (nodes / "lock").open("wb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            for left in nodes.iterdir():
                with suppress(OSError), (left / "lock").open("rb") as held:
                    fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(left, ignore_errors=True)
            self._folder = nodes / secrets.token_hex(8)
            self._folder.mkdir(mode=0o700)
            self._lock = (self._folder / "lock").open("wb")
            fcntl.flock(self._lock, fcntl.LOCK_EX)
        write_key(self._folder / KEY, key)

    def _close_sockets(self) -> None:
        """Close Ray's folder on this node, with its sockets and logs, to other users: Ray leaves it open."""
        from ray._private import worker

        session = Path(worker._global_node.get_session_dir_path())
        if session.is_dir():
            session.chmod(0o700)

    def _remove(self) -> None:
        if self._lock is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._lock.close()
            self._lock = None
