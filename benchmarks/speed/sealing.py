"""Measure the cost of isolation levels: time to the agent's first message, and time per call.

Run it with `.venv/bin/python benchmarks/speed/sealing.py`. Each round records the same tasks with the
oracle at every level that works here, starting with `none`; rounds are interleaved. Times come from the
recordings: from the start of an episode to the agent's first frame, and from one call to the next.
"""

import json
import os
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from argparse import ArgumentParser
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from load import machine, table

from mcp_bench.recorder.isolation_levels import LEVELS

TASKS = ("banking/user_task_0", "travel/user_task_0", "travel/user_task_2", "workspace/user_task_7")
FIRST_FRAME = """
    SELECT (min(f.stored_us) - e.started_us) / 1000.0 FROM episodes e JOIN frames f ON f.episode = e.id
    GROUP BY e.id
"""
CALL_TO_CALL = """
    SELECT (started_us - lag(started_us) OVER (PARTITION BY episode ORDER BY id)) / 1000.0 FROM calls
"""


@dataclass
class Times:
    """Launches and calls in milliseconds, commands in seconds."""

    commands: list[float] = field(default_factory=list)
    launches: list[float] = field(default_factory=list)
    calls: list[float] = field(default_factory=list)


def record(level: str, home: Path) -> float:
    """Record the tasks and return the seconds taken.

    Raises:
        SystemExit: the level does not work here; the text says why.
    """
    command = [str(Path(sys.executable).with_name("mcp-bench")), "record", "--agent", "oracle"]
    command += ["--benchmark", "agentdojo", "--isolation", level, "--json"]
    command += [word for task in TASKS for word in ("--task", task)]
    start = time.perf_counter()
    environ = os.environ | {"MCP_BENCH_HOME": str(home)}
    done = subprocess.run(command, env=environ, capture_output=True, text=True)
    seconds = time.perf_counter() - start
    if done.returncode != 0 or json.loads(done.stdout)["strict"] < 1:
        raise SystemExit(f"{level}: {done.stderr.strip()[-400:]}")
    return seconds


def rows(home: Path, sql: str) -> Iterator[float]:
    for path in home.glob("runs/*/recordings.db"):
        with closing(sqlite3.connect(path)) as db:
            yield from (value for (value,) in db.execute(sql) if value is not None)


def main() -> None:
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    print(machine())
    measured: dict[str, Times] = {}
    with tempfile.TemporaryDirectory() as name:
        for level in LEVELS:  # warm up, and find the levels that work
            try:
                record(level, Path(name) / f"warm-{level}")
                measured[level] = Times()
            except SystemExit as error:
                print(f"skipped: {error}")
        if "none" not in measured:
            raise SystemExit("there is nothing to compare with: see why none was skipped")
        for number in range(options.rounds):
            for level, times in measured.items():
                home = Path(name) / f"{number}-{level}"
                times.commands.append(record(level, home))
                times.launches += rows(home, FIRST_FRAME)
                times.calls += rows(home, CALL_TO_CALL)
    print(f"\n{len(TASKS)} episodes, medians of {options.rounds} interleaved rounds:\n")
    base = measured["none"]
    lines = []
    for level, times in measured.items():
        command, launch, call = map(statistics.median, (times.commands, times.launches, times.calls))
        ratio = call / statistics.median(base.calls)
        more = launch - statistics.median(base.launches)
        lines.append(
            [level, f"{command:.2f}", f"{launch:.0f}", f"{more:+.0f}", f"{call:.2f}", f"{ratio:.2f}"]
        )
    heads = ["level", "command, s", "to the first frame, ms", "added, ms", "call to call, ms", "ratio"]
    print(table(heads, lines))


if __name__ == "__main__":
    main()
