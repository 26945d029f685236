"""Measure what an episode's sandbox and its commands cost, against plain bubblewrap and plain processes.

Run it with `.venv/bin/python benchmarks/speed/sandbox.py [ROUNDS] [ENGINE]`. Rounds are interleaved, so
that drift of the machine affects all cases alike. The goals, on a quiet machine: a start under 150 ms,
and under 30 ms for a command above the command itself.
"""

import os
import resource
import statistics
import subprocess
import time
from argparse import ArgumentParser
from collections.abc import Awaitable, Callable
from functools import partial

import anyio

from mcp_bench.bridge.sandbox.engine import choose, engines
from mcp_bench.servers.sandbox import Sandbox, SandboxSpec

COMMANDS = 20
PLAIN = [
    "bwrap",
    "--unshare-all",
    "--die-with-parent",
    "--ro-bind",
    "/",
    "/",
    "--proc",
    "/proc",
    "--dev",
    "/dev",
]
PROGRAMS = {"builtin": "true", "program": "/bin/true", "python": "/usr/bin/python3 -I -S -c pass"}


async def milliseconds(action: Callable[[], Awaitable[object]], times: int = 1) -> float:
    start = time.perf_counter()
    for _ in range(times):
        await action()
    return (time.perf_counter() - start) / times * 1000


async def main() -> None:
    found: dict[str, list[float]] = {}

    def note(name: str, value: float) -> None:
        found.setdefault(name, []).append(value)

    parser = ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("rounds", nargs="?", type=int, default=15)
    parser.add_argument("engine", nargs="?", choices=list(engines()))
    given = parser.parse_args()
    engine = choose(given.engine or "")
    for _ in range(given.rounds):
        note("start: plain bwrap, one command", await milliseconds(partial(plain, [*PLAIN, "/bin/true"])))
        used = own_processor_ms()
        async with engine.sandbox(SandboxSpec()):
            pass
        note("processor of a start and a stop", own_processor_ms() - used)
        start = time.perf_counter()
        async with engine.sandbox(SandboxSpec()) as sandbox:
            note(f"start: {engine.name}, probed", (time.perf_counter() - start) * 1000)
            note("first command", await milliseconds(partial(run, sandbox, "true")))
            for name, command in PROGRAMS.items():
                shell = partial(plain, ["/bin/sh", "-c", command])
                note(f"{name}: plain process", await milliseconds(shell, 5))
                boxed = partial(plain, [*PLAIN, "/bin/sh", "-c", command])
                note(f"{name}: plain bwrap", await milliseconds(boxed, 5))
                note(f"{name}: in the sandbox", await milliseconds(partial(run, sandbox, command), COMMANDS))
            await sandbox.run("for n in $(seq 100); do echo $n >file$n; done")
            note("changes, 100 files", await milliseconds(sandbox.changes))
            note("renew", await milliseconds(sandbox.renew))
            start = time.perf_counter()
        note("stop", (time.perf_counter() - start) * 1000)
    load = os.getloadavg()[0]
    print(f"load {load:.1f} on {os.cpu_count()} processors{' (loaded: upper bounds)' if load > 1 else ''}")
    print(f"{'milliseconds':40}{'median':>9}{'least':>9}{'most':>9}")
    for name, values in found.items():
        print(f"{name:40}{statistics.median(values):9.1f}{min(values):9.1f}{max(values):9.1f}")


def own_processor_ms() -> float:
    """Return what this process and those that it waited for have used; a daemon is none of them."""
    return (
        sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
        * 1000
    )


async def plain(argv: list[str]) -> None:
    await anyio.run_process(argv, stdin=subprocess.DEVNULL)


async def run(sandbox: Sandbox, command: str) -> None:
    assert (await sandbox.run(command)).code == 0


if __name__ == "__main__":
    anyio.run(main)
