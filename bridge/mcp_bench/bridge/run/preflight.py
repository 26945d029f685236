"""Test an isolation level before a run: launch the probes as an agent would be, inside its sandbox."""

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

from mcp_bench.bridge.isolation import confine, probe
from mcp_bench.bridge.isolation.checkouts import readable_samples
from mcp_bench.bridge.isolation.hidden import checkouts
from mcp_bench.bridge.isolation.level import Access, Level
from mcp_bench.bridge.process.agent import INTERPRETER, AgentProcess, LaunchError, agent_process
from mcp_bench.bridge.process.orphans import start_ticks
from mcp_bench.bridge.wire.admission import refusal, shown_token
from mcp_bench.bridge.wire.episode_folder import EpisodeFolder
from mcp_bench.bridge.wire.peer import ancestors, peer_of
from mcp_bench.recorder.errors import home_error
from mcp_bench.recorder.paths import runs_dir
from mcp_bench.servers import contracts
from mcp_bench.servers.home import home

SECONDS = 60.0
NEEDED = ("runs", "folder", "server")
"""Probes that must succeed in a sandbox; all others must fail."""
NO_PROCESS = -1
PROBE = Path(probe.__file__).read_text()


@dataclass(frozen=True)
class Verdict:
    """Result of probing a level."""

    level: str
    probes: dict[str, dict[str, Any]] = field(default_factory=dict)
    """By probe: whether it has `passed`, and the `detail`."""
    trouble: str = ""
    """Why the probes could not run; empty if they did."""

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
    """Run all probes.

    Args:
        folder: An episode's folder, which the sandbox must allow.
        program: The agent's program, which must be executable in the sandbox.
    """
    with EpisodeFolder() as other, decoys() as sealed:
        referee = [os.getpid(), start_ticks(os.getpid())]
        needs = {
            "home": str(home()),
            "sealed": str(sealed / "grades.db"),
            "recording": str(sealed / "recordings.db"),
            "benchmark": contracts.__file__,
            "checkout": readable_samples(checkouts()),
            **dict.fromkeys(("environ", "memory", "files", "trace", "signal", "limits"), referee),
            "scheduling": referee,
            "keyring": dict(zip(confine.ARCHITECTURES, confine.REFUSED["keyctl"], strict=True)),
            "shared": 4096,
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
                    await tasks.start(answer, other, NO_PROCESS)
                    trouble = await run_probes(level, access, process, environ, folder.workdir)
                    tasks.cancel_scope.cancel()
        except TimeoutError:
            trouble = f"the probes did not finish within {SECONDS:.0f} seconds"
        return read_results(level.name, stdout, stderr, trouble)


async def run_probes(
    level: Level, access: Access, process: AgentProcess, environ: Mapping[str, str], workdir: Path
) -> str:
    """Run probe.py until it exits; return why it could not be started, or an empty string."""
    argv = (INTERPRETER, "-I", "-S", "-c", PROBE)
    with level.confined(access) as confinement:
        try:
            await process.launch(argv, environ, workdir, confinement=confinement)
            await process.wait()
        except LaunchError as error:
            return str(error)
        finally:
            await process.end()  # before the level is released
    return ""


def read_results(level: str, stdout: Path, stderr: Path, trouble: str) -> Verdict:
    if trouble:
        return Verdict(level, trouble=f"{trouble}{last_line(stderr)}")
    try:
        printed = json.loads(stdout.read_bytes())
        results = {
            name: {"passed": bool(succeeded) == (name in NEEDED), "detail": str(detail)}
            for name, (succeeded, detail) in printed.items()
        }
    except (ValueError, AttributeError):
        return Verdict(level, trouble=f"the probes could not run{last_line(stderr)}")
    return Verdict(level, results)


def last_line(stderr: Path) -> str:
    text = stderr.read_text(errors="replace").strip().rpartition("\n")[2][:200] if stderr.exists() else ""
    return f": {text}" if text else ""


@contextmanager
def decoys() -> Iterator[Path]:
    """Yield a folder with files like those of a run.

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
        raise home_error(error.filename, error) from error
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


async def answer(
    folder: EpisodeFolder, root: int, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED
) -> None:
    """Stand in for an episode's server: answer processes that its wire would admit."""

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
