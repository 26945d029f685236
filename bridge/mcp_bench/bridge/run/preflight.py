"""Probes of a level, run as the agent and inside its sandbox, before the first episode of a run."""

from __future__ import annotations

import json
import os
import secrets
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
from anyio.abc import SocketStream, TaskStatus
from anyio.streams.buffered import BufferedByteReceiveStream

from mcp_bench.bridge.isolation import probe
from mcp_bench.bridge.isolation.level import Access, Level
from mcp_bench.bridge.process.agent import INTERPRETER, AgentProcess, LaunchError, agent_process
from mcp_bench.bridge.process.orphans import start_ticks
from mcp_bench.bridge.wire.admission import refusal, shown_token
from mcp_bench.bridge.wire.episode_folder import EpisodeFolder
from mcp_bench.bridge.wire.peer import ancestors, peer_of
from mcp_bench.recorder.errors import StorageError
from mcp_bench.recorder.paths import home, runs_dir
from mcp_bench.servers import contracts

SECONDS = 60.0
NEEDED = ("runs", "folder", "server")
"""What has to work in a sandbox; of everything else, nothing must."""
NOBODY = -1
PROBE = Path(probe.__file__).read_text()


@dataclass(frozen=True)
class Verdict:
    """What the probes of a level came to."""

    level: str
    probes: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Of each probe, whether it has `passed`, and its `detail`."""
    trouble: str = ""
    """Why they could not be run."""

    @property
    def failed(self) -> list[str]:
        return [name for name, result in self.probes.items() if not result["passed"]]

    @property
    def passed(self) -> bool:
        return not self.trouble and not self.failed

    def __str__(self) -> str:
        if self.trouble:
            return self.trouble
        words = [f"{name} ({self.probes[name]['detail']})" for name in self.failed]
        return f"failed probes: {', '.join(words)}" if words else f"{len(self.probes)} probes passed"


async def preflight(
    level: Level, access: Access, folder: EpisodeFolder, environ: Mapping[str, str], program: str
) -> Verdict:
    """Run all probes. `program` is the agent's, which has to be there, and `folder` one of an episode."""
    with EpisodeFolder() as other, decoys() as sealed:
        referee = [os.getpid(), start_ticks(os.getpid())]
        needs = {
            "home": str(home()),
            "sealed": str(sealed / "grades.db"),
            "recording": str(sealed / "recordings.db"),
            "benchmark": contracts.__file__,
            **dict.fromkeys(("environ", "memory", "files", "trace", "signal", "limits"), referee),
            "kernel": "/proc/sys/kernel/core_pattern",
            "neighbour": str(other.relay / "token"),
            "neighbour_socket": str(other.relay),
            "server": str(folder.relay),
            "runs": program,
            "folder": str(folder.workdir),
        }
        stdout, stderr = sealed / "stdout", sealed / "stderr"
        try:
            with anyio.fail_after(SECONDS):
                async with (
                    agent_process(json.dumps(needs).encode(), stdout, stderr) as process,
                    anyio.create_task_group() as tasks,
                ):
                    await tasks.start(answer, folder, process.supervisor_pid)
                    await tasks.start(answer, other, NOBODY)
                    trouble = await run(level, access, process, environ, folder.workdir)
                    tasks.cancel_scope.cancel()
        except TimeoutError:
            trouble = f"its probes did not end within {SECONDS:.0f} seconds"
        return judged(level.name, stdout, stderr, trouble)


async def run(
    level: Level, access: Access, process: AgentProcess, environ: Mapping[str, str], workdir: Path
) -> str:
    """Run probe.py to its end; return why it could not be started."""
    argv = (INTERPRETER, "-I", "-S", "-c", PROBE)
    with level.confined(access) as confinement:
        try:
            await process.launch(argv, environ, workdir, confinement=confinement)
            await process.wait()
        except LaunchError as error:
            return str(error)
        finally:
            await process.end()  # while the level is still held
    return ""


def judged(level: str, stdout: Path, stderr: Path, trouble: str) -> Verdict:
    if trouble:
        return Verdict(level, trouble=f"{trouble}{last_words(stderr)}")
    try:
        told = json.loads(stdout.read_bytes())
        results = {
            name: {"passed": bool(succeeded) == (name in NEEDED), "detail": str(detail)}
            for name, (succeeded, detail) in told.items()
        }
    except (ValueError, AttributeError):
        return Verdict(level, trouble=f"its probes could not be run{last_words(stderr)}")
    return Verdict(level, results)


def last_words(stderr: Path) -> str:
    words = stderr.read_text(errors="replace").strip().rpartition("\n")[2][:200] if stderr.exists() else ""
    return f": {words}" if words else ""


@contextmanager
def decoys() -> Iterator[Path]:
    """Yield a folder as a run's is, with the files of a run.

    Raises:
        StorageError: the home cannot be written.
    """
    folder = runs_dir() / f".preflight-{secrets.token_hex(8)}"
    try:
        runs_dir().mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.mkdir(mode=0o700)
        for name in ("grades.db", "recordings.db"):
            (folder / name).touch(mode=0o600)
            (folder / name).write_text(secrets.token_hex())
    except OSError as error:
        raise StorageError(
            f"cannot write to {error.filename}: {error.strerror}. Recordings go to $MCP_BENCH_HOME; "
            "set it to a folder that you can write"
        ) from error
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


async def answer(
    folder: EpisodeFolder, root: int, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED
) -> None:
    """Stand for an episode's server: whom its wire would let in is answered."""

    async def handle(client: SocketStream) -> None:
        async with client:
            source = BufferedByteReceiveStream(client)
            with peer_of(client) as peer:
                line = ancestors(peer)
            shown = await shown_token(source)
            if shown is not None and refusal(shown, folder.token, root, line) is None:
                await client.send(b"{}\n")

    async with await anyio.create_unix_listener(folder.socket, mode=0o600) as listener:
        task_status.started()
        await listener.serve(handle)
