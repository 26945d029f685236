"""Measure one referee with many parallel agents: completeness of frames, throughput, memory and CPU.

Run it with `.venv/bin/python benchmarks/speed/many_sessions.py`. A referee process serves each episode a
separate wire and world, as `record` does (token, peer check, tap, SQLite). Shims are started as agents
start them. This process acts as all agents: it writes JSON lines and reads the answers, without an SDK.
The first part counts frames. The second measures calls per second on an echo world and on a real one.
"""

import json
import os
import selectors
import sqlite3
import subprocess
import sys
import tempfile
import time
from argparse import ArgumentParser
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from load import TEXT, cpu_ms, machine, table

from mcp_bench.servers.contracts import JSON
from mcp_bench.servers.saasworld import BENCHMARK

REFEREE = str(Path(__file__).with_name("referee.py"))
ECHO_CALL = {"name": "echo", "arguments": {"text": TEXT}}
TASK = "sales-closed-deal.2.train.0"


def task_call() -> dict[str, JSON]:
    """Return the first call of the task's reference solution. It only reads, so it can be repeated."""
    found = BENCHMARK.reference(TASK).calls[0]
    return {"name": found.name, "arguments": found.arguments}


def request(number: int, method: str, params: Mapping[str, object]) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}).encode() + b"\n"


HANDSHAKE = request(
    0,
    "initialize",
    {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "load", "version": "1"}},
)
INITIALIZED = b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n'


class Agent:
    """One shim. Each line is sent to it after the previous one is answered."""

    def __init__(self, command: Sequence[str]) -> None:
        pipe = subprocess.PIPE
        self.shim = subprocess.Popen(command, stdin=pipe, stdout=pipe, bufsize=0)
        self.sent = 0
        self.received = 0
        self.left = 0
        self._unfinished = b""
        self._line = b""

    def send(self, lines: bytes) -> None:
        assert self.shim.stdin is not None
        self.shim.stdin.write(lines)
        self.sent += lines.count(b"\n")

    def begin(self, line: bytes, count: int) -> None:
        """Send `line` now and after each answer, `count` times in total."""
        self._line, self.left = line, count
        self.send(line)

    def read(self) -> None:
        """Read the available answers.

        Raises:
            SystemExit: the shim has ended, or a call failed.
        """
        assert self.shim.stdout is not None
        chunk = self.shim.stdout.read(1 << 16)
        if not chunk:
            raise SystemExit(f"a shim ended after {self.sent} frames sent and {self.received} received")
        *lines, self._unfinished = (self._unfinished + chunk).split(b"\n")
        for line in lines:
            if b'"isError":true' in line or b'"result"' not in line:
                raise SystemExit(f"a call failed: {line[:500]!r}")
            self.received += 1
            self.left -= 1
            if self.left:
                self.send(self._line)


@dataclass
class Load:
    """The measurements of one run."""

    calls: int
    seconds: float
    cpu: dict[str, float]
    """Milliseconds of CPU time per call, by process."""
    memory: int
    """Peak memory of the referee, in bytes."""
    sent: int
    received: int
    stored: int


def run(root: Path, sessions: int, calls: int, task: str, *options: str, referees: int = 1) -> Load:
    """Run `sessions` parallel agents with `calls` calls each, spread over referee processes."""
    argv = [sys.executable, REFEREE, str(root), "--episodes", str(sessions // referees), "--task", task]
    call = request(1, "tools/call", ECHO_CALL if task == "echo" else task_call())
    with ExitStack() as stack:
        pipe = subprocess.PIPE
        started: list[subprocess.Popen[str]] = []
        for _ in range(referees):
            started.append(
                stack.enter_context(subprocess.Popen([*argv, *options], stdin=pipe, stdout=pipe, text=True))
            )
            stack.callback(started[-1].kill)
        agents: list[Agent] = []
        for referee in started:
            assert referee.stdout is not None
            for command in json.loads(referee.stdout.readline()):
                agents.append(Agent(command))
                stack.enter_context(agents[-1].shim)
                stack.callback(agents[-1].shim.kill)
        selector = stack.enter_context(selectors.DefaultSelector())
        for agent in agents:
            assert agent.shim.stdout is not None
            selector.register(agent.shim.stdout, selectors.EVENT_READ, agent)
        drive(agents, selector, HANDSHAKE, 1)
        for agent in agents:
            agent.send(INITIALIZED)
        drive(agents, selector, request(0, "tools/list", {}), 1)
        drive(agents, selector, call, 5)
        processes = {
            "this load": [os.getpid()],
            "shims": [agent.shim.pid for agent in agents],
            "referee": [referee.pid for referee in started],
        }
        before = {name: cpu_ms(pids) for name, pids in processes.items()}
        start = time.perf_counter()
        drive(agents, selector, call, calls)
        seconds = time.perf_counter() - start
        total = sessions * calls
        cpu = {name: (cpu_ms(pids) - before[name]) / total for name, pids in processes.items()}
        memory = max(peak_memory(referee.pid) for referee in started)
        for agent in agents:
            assert agent.shim.stdin is not None
            agent.shim.stdin.close()
        for agent in agents:
            agent.shim.wait(timeout=30)
        stored = 0
        for referee in started:
            counts = json.loads(referee.communicate("", timeout=60)[0])
            if counts["refused"]:
                raise SystemExit(f"the referee refused {counts['refused']} connections")
            stored += stored_frames(counts["recordings"])
    sent, received = sum(agent.sent for agent in agents), sum(agent.received for agent in agents)
    return Load(total, seconds, cpu, memory, sent, received, stored)


def drive(agents: Sequence[Agent], selector: selectors.BaseSelector, line: bytes, count: int) -> None:
    """Make every agent send `line` and read the answer, `count` times."""
    for agent in agents:
        agent.begin(line, count)
    left = len(agents)
    while left:
        for key, _ in selector.select(timeout=60) or no_answer():
            key.data.read()
            left -= key.data.left == 0


def no_answer() -> list[tuple[selectors.SelectorKey, int]]:
    raise SystemExit("no answer within a minute")


def peak_memory(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024


def stored_frames(recordings: str) -> int:
    connection = sqlite3.connect(f"file:{recordings}?mode=ro", uri=True)
    try:
        return int(connection.execute("SELECT count(*) FROM frames").fetchone()[0])
    finally:
        connection.close()


def count_frames(root: Path, sessions: int) -> bool:
    """Print whether every frame of many sessions was stored, and the referee's peak memory."""
    load = run(root, sessions, 50, "echo")
    complete = load.stored == load.sent + load.received
    print(f"\n{sessions} sessions, 50 calls each:\n")
    print(f"- {load.sent:,} frames sent and {load.received:,} received, {load.stored:,} stored: ", end="")
    print("complete" if complete else "FRAMES ARE MISSING")
    print(f"- peak memory of the referee: {load.memory / 1e6:.0f} MB")
    print(f"- {load.calls / load.seconds:,.0f} calls/s")
    return complete


def throughput(root: Path, sessions: int, rounds: int) -> dict[str, list[float]]:
    """Print calls per second, and the CPU time of each process; return the calls per second."""
    cases: dict[str, tuple[str, int, tuple[str, ...]]] = {
        "echo world": ("echo", 1, ()),
        "echo world, two referees": ("echo", 2, ()),
        "saasworld": (TASK, 1, ()),
        "saasworld, two referees": (TASK, 2, ()),
        "echo world, no tap, no SQLite": ("echo", 1, ("--relay",)),
    }
    loads: dict[str, list[Load]] = {name: [] for name in cases}
    for _ in range(rounds):
        for name, (task, referees, options) in cases.items():
            loads[name].append(run(root, sessions, 100, task, *options, referees=referees))
    rows = []
    for name, found in loads.items():
        middle = sorted(found, key=lambda load: load.calls / load.seconds)[len(found) // 2]
        cpu = [f"{value:.3f}" for value in (*middle.cpu.values(), sum(middle.cpu.values()))]
        rows.append([name, f"{middle.calls / middle.seconds:,.0f}", *cpu])
    print(f"\n{sessions} parallel sessions, median of {rounds} interleaved rounds; CPU in ms per call:\n")
    print(table(["world", "calls/s", *(f"CPU, {name}" for name in middle.cpu), "CPU, all"], rows))
    return {name: [load.calls / load.seconds for load in found] for name, found in loads.items()}


def main() -> int:
    parser = ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--sessions", type=int, default=256, help="parallel sessions of the first part")
    parser.add_argument("--rounds", type=int, default=3, help="rounds of the second part")
    parser.add_argument("--only", choices=["frames", "throughput"], help="run only this part")
    options = parser.parse_args()
    print(machine())
    complete = True
    with tempfile.TemporaryDirectory() as root:
        if options.only in (None, "frames"):
            complete = count_frames(Path(root), options.sessions)
        if options.only in (None, "throughput"):
            throughput(Path(root), 64, options.rounds)
    return 0 if complete else 1


if __name__ == "__main__":
    sys.exit(main())
