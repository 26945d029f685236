"""Measure a run with one referee process and with several: episodes per second, and per second of CPU.

    .venv/bin/python benchmarks/speed/referees.py --episodes 120 --jobs 8 --referees 1,2 --rounds 3

Each round records the same saasworld tasks with the oracle once for each number of processes, in turn. The
CPU time is that of the run's process and its referee processes. Agents are forks that nobody waits for, and
do not count. On a busy machine the seconds mean little; the CPU time and the counts do.
"""

import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from argparse import ArgumentParser


def cpu() -> float:
    """Return the CPU seconds of all processes that were waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def record(referees: int, episodes: int, jobs: int) -> tuple[float, float, int]:
    """Record once; return the seconds, the CPU seconds and the number of calls."""
    with tempfile.TemporaryDirectory() as home:
        words = [
            "--agent",
            "oracle",
            "--benchmark",
            "saasworld",
            "--limit",
            str(episodes),
            "--isolation",
            "none",
        ]
        command = [sys.executable, "-m", "mcp_bench.bridge.cli.root", "record", *words, "--jobs", str(jobs)]
        before, start = cpu(), time.perf_counter()
        done = subprocess.run(
            [*command, "--referees", str(referees), "--json"],
            env={**os.environ, "MCP_BENCH_HOME": home},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            check=True,
        )
        summary = json.loads(done.stdout)
        assert summary["graded"] == episodes and summary["strict"] == 1.0, summary
        return time.perf_counter() - start, cpu() - before, summary["calls"]


def compare(
    numbers: list[int], episodes: int, jobs: int, rounds: int
) -> dict[int, list[tuple[float, float, int]]]:
    """Record with each number of referee processes in turn; return the figures of all rounds."""
    found = {number: list[tuple[float, float, int]]() for number in numbers}
    for _ in range(rounds):
        for number in numbers:
            found[number].append(record(number, episodes, jobs))
            print(number, *(f"{value:.2f}" for value in found[number][-1]), flush=True)
    print(f"load {os.getloadavg()[0]:.1f}, {len(os.sched_getaffinity(0))} processors, {jobs} at a time")
    for number, figures in found.items():
        seconds, used, calls = (statistics.median(column) for column in zip(*figures, strict=True))
        per = f"{episodes / seconds:.2f} episodes/s, {episodes / used:.2f} episodes per CPU second"
        print(f"{number} referees: {per}, {1000 * used / calls:.2f} ms of CPU per call")
    return found


def main() -> None:
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--episodes", type=int, default=120)
    parser.add_argument("--jobs", type=int, default=8)
    parser.add_argument("--referees", default="1,2")
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    numbers = [int(number) for number in given.referees.split(",")]
    compare(numbers, given.episodes, given.jobs, given.rounds)


if __name__ == "__main__":
    main()
