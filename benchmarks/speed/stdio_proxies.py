"""Measure the cost of proxies for stdio servers: ours with recording, and other projects'.

Run it with `.venv/bin/python benchmarks/speed/stdio_proxies.py`. The same SDK client calls the same SDK
server (`echo_server.py`, 200 bytes each way) directly and through each proxy. All sessions of a table
stay open and take turns of a few calls each, so that machine drift affects all alike. Peers are installed
into separate environments on first use (`--envs`).
"""

import json
import os
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from argparse import ArgumentParser
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import anyio
import peers
from load import (
    ECHO,
    TEXT,
    added,
    call,
    calls_per_second,
    cpu_ms,
    descendants,
    is_server,
    machine,
    median_of,
    table,
)
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

CALLS = 50
SESSIONS = 16
SERVER = (sys.executable, ECHO, "sdk")
RAW = (sys.executable, "-I", "-S", ECHO, "raw")
REFEREE = str(Path(__file__).with_name("referee.py"))
FLOOR = "cat on either side (the floor)"
OURS = "mcp-bench proxy, recording"


@dataclass
class Session:
    """An open session, and the processes between its client and its server."""

    client: Client
    between: set[int]
    rounds: list[list[float]] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    """CPU milliseconds per call of the processes in between."""

    async def measure(self) -> None:
        before = cpu_ms(self.between)
        self.rounds.append(await call(self.client, CALLS))
        self.cpu.append((cpu_ms(self.between) - before) / CALLS)


def our_proxy(command: Sequence[str]) -> list[str]:
    return [sys.executable, "-m", "mcp_bench.bridge.cli.root", "proxy", *command]


def between_cats(command: Sequence[str]) -> list[str]:
    """Return a proxy command that does nothing, to measure the cost of two more pipes and wake-ups."""
    return ["sh", "-c", f"cat | {shlex.join(command)} | cat"]


@asynccontextmanager
async def open_session(
    command: Sequence[str], home: Path, more: Sequence[int] = ()
) -> AsyncIterator[Session]:
    """Start `command` and connect to it. `more` are other processes that it uses."""
    before = descendants(os.getpid())
    parameters = StdioServerParameters(
        command=command[0], args=list(command[1:]), env={"MCP_BENCH_HOME": str(home)}
    )
    with (home / "stderr.log").open("a") as log:
        # the protocol version that every peer supports
        async with Client(stdio_client(parameters, errlog=log), mode="legacy") as client:
            await call(client, 5)
            started = descendants(os.getpid()) - before
            yield Session(client, {pid for pid in started if not is_server(pid)} | set(more))


@contextmanager
def referee(home: Path, *options: str) -> Iterator[tuple[int, list[list[str]]]]:
    """Run a referee and yield its process id and the commands of its shims."""
    argv = [sys.executable, REFEREE, str(home), *options]
    pipe = subprocess.PIPE
    with subprocess.Popen(argv, stdin=pipe, stdout=pipe, text=True) as process:
        try:
            assert process.stdout is not None
            yield process.pid, json.loads(process.stdout.readline())
            process.communicate("", timeout=30)
        finally:
            process.kill()


async def one_session(cases: dict[str, Sequence[str]], home: Path, rounds: int) -> dict[str, float]:
    """Print what each proxy adds to a call with one session; return the added milliseconds."""
    with ExitStack() as referees:
        chains = {
            "our world's server, through shim and socket": ("--relay",),
            "record: shim, socket, tap, SQLite, world": (),
        }
        shims = {name: referees.enter_context(referee(home, *options)) for name, options in chains.items()}
        async with AsyncExitStack() as stack:
            sessions = {
                name: await stack.enter_async_context(open_session(command, home))
                for name, command in cases.items()
            }
            for name, (pid, commands) in shims.items():
                opening = open_session(commands[0], home, more=(pid,))
                sessions[name] = await stack.enter_async_context(opening)
            for _ in range(rounds):
                for session in sessions.values():
                    await session.measure()
    base = median_of(sessions["direct"].rounds)
    rows, extra = [], {}
    for name, session in sessions.items():
        median = median_of(session.rounds)
        more = extra[name] = added(session.rounds, sessions["direct"].rounds)
        cpu = statistics.median(session.cpu)
        rows.append([name, f"{median:.3f}", f"{median / base:.2f}", f"{more:+.3f}", f"{cpu:.3f}"])
    print(f"\nOne session, medians of {rounds} interleaved rounds of {CALLS} calls:\n")
    print(table(["", "ms per call", "ratio", "added, ms", "CPU between, ms per call"], rows))
    return extra


async def many_sessions(cases: dict[str, Sequence[str]], home: Path, rounds: int) -> dict[str, float]:
    """Print calls per second of 16 parallel sessions, for each proxy in turns with direct sessions.

    Return the shares of the direct sessions' rates.
    """
    rows, shares = [], {}
    async with AsyncExitStack() as stack:
        direct = await open_many(stack, cases["direct"], home)
        for name, command in cases.items():
            if name == "direct":
                continue
            async with AsyncExitStack() as inner:
                proxied = await open_many(inner, command, home)
                pairs = [
                    (await calls_per_second(direct, CALLS), await calls_per_second(proxied, CALLS))
                    for _ in range(rounds)
                ]
            bare, through = (statistics.median(rates) for rates in zip(*pairs, strict=True))
            share = shares[name] = statistics.median(b / a for a, b in pairs)
            rows.append([name, f"{through:.0f}", f"{bare:.0f}", f"{share:.0%}"])
    print(f"\n{SESSIONS} sessions at once, medians of {rounds} rounds in turns with direct ones:\n")
    print(table(["", "calls/s", "direct calls/s", "of direct"], rows))
    return shares


async def open_many(stack: AsyncExitStack, command: Sequence[str], home: Path) -> list[Client]:
    sessions = [open_session(command, home) for _ in range(SESSIONS)]
    return [(await stack.enter_async_context(session)).client for session in sessions]


def raw_limit(cases: dict[str, Sequence[str]], home: Path, rounds: int) -> None:
    """Print the cost without an SDK at either end: processes, pipes and the tap."""
    params = {"name": "echo", "arguments": {"text": TEXT}}
    line = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).encode() + b"\n"
    times: dict[str, list[list[float]]] = {name: [] for name in cases}
    rates: dict[str, list[float]] = {name: [] for name in cases}
    env = {**os.environ, "MCP_BENCH_HOME": str(home)}
    with ExitStack() as stack:
        pipes = {}
        for name, command in cases.items():
            process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0, env=env
            )
            pipes[name] = stack.enter_context(process)
        for number in range(rounds + 1):
            for name, process in pipes.items():
                assert process.stdin is not None and process.stdout is not None
                taken = []
                for _ in range(CALLS * 4):
                    start = time.perf_counter()
                    process.stdin.write(line)
                    answer = b""
                    while not answer.endswith(b"\n"):
                        answer += process.stdout.read(1 << 16)
                    taken.append((time.perf_counter() - start) * 1000)
                if number:  # the first round warms up
                    times[name].append(taken)
                    rates[name].append(len(taken) / sum(taken) * 1000)
    rows = []
    for name, rounds_of in times.items():
        more = added(rounds_of, times["direct"])
        rate = statistics.median(rates[name])
        rows.append([name, f"{median_of(rounds_of):.3f}", f"{more:+.3f}", f"{rate:.0f}"])
    print("\nThe raw limit, JSON lines without an SDK, one call after the other:\n")
    print(table(["", "ms per call", "added, ms", "calls/s"], rows))


def cases_of(envs: Path | None, home: Path) -> dict[str, Sequence[str]]:
    """Return the commands to compare, with those of the peers if their environments are given."""
    cases: dict[str, Sequence[str]] = {"direct": SERVER, OURS: our_proxy(SERVER)}
    if envs is not None:
        cases["fastmcp"] = peers.fastmcp_stdio(SERVER, envs, home)
        cases["mcp-proxy"] = peers.mcp_proxy_stdio(SERVER, envs)
    return cases


def main() -> None:
    parser = ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--envs", type=Path, default=peers.ENVS, help="folder with the peers' environments")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--only", choices=["one", "many", "raw"], help="print only this table")
    parser.add_argument("--no-peers", action="store_true", help="measure only mcp-bench")
    options = parser.parse_args()
    print(machine())
    with tempfile.TemporaryDirectory() as name:
        home = Path(name)
        cases = cases_of(None if options.no_peers or options.only == "raw" else options.envs, home)
        if options.only in (None, "one"):
            ours = {"our world's server, on stdio": (sys.executable, REFEREE, str(home), "--stdio")}
            floor = {FLOOR: between_cats(SERVER)}
            anyio.run(one_session, {**cases, **floor, **ours}, home, options.rounds)
        if options.only in (None, "many"):
            anyio.run(many_sessions, cases, home, max(3, options.rounds // 3))
        if options.only in (None, "raw"):
            raw_limit({"direct": RAW, FLOOR: between_cats(RAW), OURS: our_proxy(RAW)}, home, options.rounds)


if __name__ == "__main__":
    main()
