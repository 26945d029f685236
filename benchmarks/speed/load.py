"""Helpers for the proxy benchmarks: rounds of calls, CPU clocks and result tables."""

import os
import platform
import sqlite3
import statistics
import time
from collections.abc import Iterable, Sequence
from importlib.metadata import version
from pathlib import Path

import anyio
from mcp import Client

TEXT = "x" * 200
ECHO = str(Path(__file__).with_name("echo_server.py"))


async def call(client: Client, count: int) -> list[float]:
    """Make `count` sequential calls; return the milliseconds of each."""
    times = []
    for _ in range(count):
        start = time.perf_counter()
        await client.call_tool("echo", {"text": TEXT})
        times.append((time.perf_counter() - start) * 1000)
    return times


async def calls_per_second(clients: Sequence[Client], count: int) -> float:
    """Return the rate of `count` calls on each client, with all clients in parallel."""
    start = time.perf_counter()
    async with anyio.create_task_group() as tasks:
        for client in clients:
            tasks.start_soon(call, client, count)
    return len(clients) * count / (time.perf_counter() - start)


def cpu_ms(pids: Iterable[int]) -> float:
    """Return the CPU time of live processes with all their threads, in milliseconds.

    The clock id is computed as in clock_getcpuclockid(3) on Linux. Unlike /proc/PID/stat, this clock has
    nanosecond resolution.
    """
    return sum(time.clock_gettime((~pid << 3) | 2) for pid in pids) * 1000


def descendants(root: int) -> set[int]:
    """Return the live descendants of the process `root`."""
    found: set[int] = set()
    try:
        for task in os.listdir(f"/proc/{root}/task"):  # noqa: PTH208
            for child in Path(f"/proc/{root}/task/{task}/children").read_text().split():
                found |= {int(child), *descendants(int(child))}
    except OSError:  # the process has ended
        pass
    return found


def is_server(pid: int) -> bool:
    """Return whether a process is an echo server, and not a proxy with its command as arguments."""
    return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[1:2] == [ECHO.encode()]


def machine() -> str:
    """Describe the machine and library versions."""
    names = ", ".join(f"{name} {version(name)}" for name in ("mcp", "anyio", "pydantic"))
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    return (
        f"{os.cpu_count()} cores, Linux {platform.release()}, Python {platform.python_version()}, "
        f"SQLite {sqlite3.sqlite_version}, {names}; load before: {load}"
    )


def median_of(rounds: Sequence[Sequence[float]]) -> float:
    """Return the median of the rounds' medians."""
    return statistics.median(statistics.median(times) for times in rounds)


def added(rounds: Sequence[Sequence[float]], base: Sequence[Sequence[float]]) -> float:
    """Return the median of the differences to the adjacent round of `base`.

    Machine drift affects adjacent rounds alike, so this is more stable than the difference of two medians.
    """
    pairs = zip(rounds, base, strict=True)
    return statistics.median(statistics.median(ours) - statistics.median(theirs) for ours, theirs in pairs)


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table. The first column is left-aligned, the others right-aligned."""
    lines = [list(heads), *map(list, rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(heads))]
    rule = ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]
    lines.insert(1, rule)
    return "\n".join(
        "| "
        + " | ".join(
            cell.ljust(width) if at == 0 else cell.rjust(width)
            for at, (cell, width) in enumerate(zip(line, widths, strict=True))
        )
        + " |"
        for line in lines
    )
