"""Interactive use through its real interfaces: the SDK's client, or raw lines for clients that misbehave."""

import json
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters

MODES = ("legacy", "2026-07-28")
SECONDS = 120


@pytest.fixture
def bench_home(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A home with a short path, because it holds the referee's sockets. Its referee ends with the test."""
    folder = Path(tempfile.mkdtemp(prefix="mcp-inter-"))
    home = folder / "h"
    monkeypatch.setenv("MCP_BENCH_HOME", str(home))
    yield home
    for used in (home, folder / ".local/share/mcp-bench"):  # the second is the default below HOME
        end_referee(used)
    shutil.rmtree(folder)


def end_referee(home: Path) -> None:
    with suppress(FileNotFoundError):
        wait_until_free(home / "referee" / "starting")  # wait for a referee that is just starting
    for attempt in (signal.SIGTERM, signal.SIGKILL):
        with suppress(OSError, ValueError, subprocess.CalledProcessError):  # one that does not end is killed
            os.kill(referee_pid(home), attempt)
            wait_until_ended(home)


def referee_pid(home: Path) -> int:
    """Return the process that holds the referee's lock, from /proc/locks."""
    inode = (home / "referee" / "lock").stat().st_ino
    for line in Path("/proc/locks").read_text().splitlines():
        fields = line.split()
        if fields[1] == "FLOCK" and fields[5].rpartition(":")[2] == str(inode):
            return int(fields[4])
    raise ValueError("no referee is up")


def wait_until_ended(home: Path) -> None:
    wait_until_free(home / "referee" / "lock")


def wait_until_free(path: Path) -> None:
    """Wait until nobody locks a file; fail after a minute."""
    # the command's limit ends a wait that the lock call itself cannot
    with path.open() as lock:
        number = lock.fileno()
        subprocess.run(["flock", "--timeout", "60", str(number)], pass_fds=[number], check=True)


@pytest.fixture
def client(bench) -> Callable[..., Client]:
    """Return a function that makes an SDK client of `mcp-bench ARGS`. `mode` selects the protocol version."""

    def make(mode: str, *args: str) -> Client:
        command, *rest = bench.warm_command(*args)
        server = StdioServerParameters(
            command=command, args=rest, env=bench.environment(), cwd=bench.home.parent
        )
        return Client(server, mode=mode)

    return make


class Lines:
    """A client that writes and reads raw lines, in a protocol version with a handshake."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.last = 0

    def send(self, *messages: dict) -> None:
        """Send messages in one write."""
        self.process.stdin.write(
            "".join(json.dumps({"jsonrpc": "2.0", **message}) + "\n" for message in messages)
        )
        self.process.stdin.flush()

    def receive(self) -> dict:
        line = self.process.stdout.readline()
        assert line, self.process.communicate(timeout=SECONDS)
        return json.loads(line)

    def request(self, method: str, **params: object) -> dict:
        self.last += 1
        return {"id": self.last, "method": method, "params": params}

    def tool(self, name: str, **arguments: object) -> dict:
        return self.request("tools/call", name=name, arguments=arguments)

    def call(self, name: str, **arguments: object) -> tuple[str, bool]:
        """Call a tool; return its text and whether it is an error."""
        self.send(self.tool(name, **arguments))
        return said(self.receive())

    def initialize(self) -> None:
        hello = {"protocolVersion": "2025-06-18", "capabilities": {}}
        self.send(self.request("initialize", **hello, clientInfo={"name": "lines", "version": "7"}))
        assert "result" in self.receive()
        self.send({"method": "notifications/initialized"})

    def end(self) -> str:
        """Close the connection and return stderr."""
        _, err = self.process.communicate(timeout=SECONDS)
        return err


def said(answer: dict) -> tuple[str, bool]:
    return answer["result"]["content"][0]["text"], answer["result"]["isError"]


@pytest.fixture
def lines(bench):
    """Return a function that opens a raw connection to `mcp-bench ARGS`.

    With `own`, the command is an interpreter of its own, which a test can kill.
    """

    @contextmanager
    def connect(*args: str, own: bool = False) -> Iterator[Lines]:
        command = bench.command(*args) if own else bench.warm_command(*args)
        pipe = subprocess.PIPE
        with subprocess.Popen(
            command,
            env=bench.environment(),
            stdin=pipe,
            stdout=pipe,
            stderr=pipe,
            text=True,
            cwd=bench.home.parent,
        ) as process:
            try:
                connection = Lines(process)
                connection.initialize()
                yield connection
            finally:
                process.kill()

    return connect
