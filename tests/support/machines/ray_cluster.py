"""A real Ray cluster on this machine: each node is a set of processes, with a home of its own."""

from __future__ import annotations

import fcntl
import os
import secrets
import select
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from tests.support.bench_commands import FIXTURES

STORE_BYTES = 80_000_000
SECONDS = 300
STARTS = 3
"""Ray gives up at times."""
END_SECONDS = 60


@dataclass
class Cluster:
    """Use it as a context manager: its processes end with it."""

    folder: Path
    """Short, since Ray's sockets are below it."""
    port: int = 0
    nodes: dict[str, list[int]] = field(default_factory=dict)
    """By name: its processes."""
    node_environ: dict[str, str] = field(default_factory=dict)
    """More variables of nodes."""

    @property
    def token(self) -> Path:
        return self.folder / "token"

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def environ(self) -> dict[str, str]:
        """Variables of nodes and drivers."""
        return {
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN_PATH": str(self.token),
            "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_worker_niceness": "0",
            "RAY_raylet_start_wait_time_s": "150",  # 30 are not always enough on a loaded machine
        }

    def __enter__(self) -> Cluster:
        descriptor = os.open(self.token, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        os.write(descriptor, secrets.token_hex(32).encode())
        os.close(descriptor)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        place = ("--temp-dir", str(self.folder / "ray"), "--include-dashboard=false")
        printed = self._start("head", "--head", "--port", str(self.port), *place)
        words = next(line for line in printed.splitlines() if "Local node IP" in line)
        self.host = words.rpartition(" ")[2]
        return self

    def add(self, name: str, **environ: str) -> None:
        """Start a node; `environ` replaces variables of it."""
        self._start(name, "--address", self.address, environ=environ)

    def home(self, name: str) -> Path:
        return self.folder / "homes" / name

    def kill(self, name: str) -> None:
        """Kill a node without a warning, all of its processes at once."""
        for pid in self.nodes.pop(name):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def __exit__(self, *_: object) -> None:
        for name in list(self.nodes):
            self.kill(name)
        for pid in self._processes():  # workers, too, which end when their node is gone
            _wait_for(pid)
        for lock in self.folder.glob("homes/*/nodes/**/lock"):  # referee processes end their agents first
            with suppress(FileNotFoundError), lock.open("rb") as held:
                fcntl.flock(held, fcntl.LOCK_EX)

    def _start(self, name: str, *options: str, environ: Mapping[str, str] = MappingProxyType({})) -> str:
        self.home(name).mkdir(mode=0o700, parents=True, exist_ok=True)
        given = ("--node-name", name, "--num-cpus", "2", "--object-store-memory", str(STORE_BYTES))
        command = [sys.executable, "-m", "ray.scripts.scripts", "start", *options, *given]
        variables = {
            **{one: os.environ[one] for one in ("PATH", "HOME")},
            **self.environ,
            "PYTHONPATH": str(FIXTURES),
            "MCP_BENCH_HOME": str(self.home(name)),
            **self.node_environ,
            **environ,
        }
        before = self._processes()
        for _ in range(STARTS):
            done = subprocess.run(
                command, env=variables, capture_output=True, text=True, timeout=SECONDS, check=False
            )
            self.nodes[name] = sorted(self._processes() - before)
            if done.returncode == 0:
                return done.stdout + done.stderr
            self.kill(name)
        self.__exit__()
        raise AssertionError((done.stdout, done.stderr))

    def _processes(self) -> set[int]:
        """Return the processes that Ray's commands of this cluster have left."""
        found = set[int]()
        for path in Path("/proc").glob("[0-9]*/environ"):
            try:
                if f"RAY_AUTH_TOKEN_PATH={self.token}\0".encode() in path.read_bytes():
                    found.add(int(path.parent.name))
            except OSError:
                continue
        return found


def _wait_for(pid: int) -> None:
    """Wait until a process has ended.

    Raises:
        AssertionError: it does not end.
    """
    with suppress(ProcessLookupError):
        process = os.pidfd_open(pid)
        try:
            assert select.select([process], [], [], END_SECONDS)[0], f"the process {pid} goes on"
        finally:
            os.close(process)


def new_folder() -> Path:
    return Path(tempfile.mkdtemp(prefix="mb-ray-", dir="/tmp"))
