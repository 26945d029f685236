"""Measure what starting, confining, limiting and ending an agent costs, without a world or a recording.

Run it with `.venv/bin/python benchmarks/speed/confinement.py`. Rounds are interleaved, so that machine drift
affects all cases alike. The agent is `true`, then a Python that makes system calls.
"""

import os
import statistics
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

import anyio

from mcp_bench.bridge.episode.sandbox_access import access
from mcp_bench.bridge.isolation.levels import BY_NAME
from mcp_bench.bridge.process.agent import INTERPRETER, agent_process
from mcp_bench.bridge.process.limits import AgentLimits
from mcp_bench.bridge.wire.episode_folder import EpisodeFolder
from mcp_bench.plugins.contracts import Installation

ROUNDS = 15
CALLS = 300_000
LOOP = f"""
import os, time
get = os.getppid
start = time.perf_counter()
for _ in range({CALLS}): get()
print((time.perf_counter() - start) / {CALLS} * 1e9)
"""
IDLE_SECONDS = 5.0


async def launched(level: str, argv: list[str], idle: float = 0.0) -> tuple[float, str, float]:
    """Return the seconds from launch to end, the output, and the supervisor's share of a processor."""
    with EpisodeFolder() as folder, ExitStack() as held, tempfile.TemporaryDirectory() as logs:
        out, share = Path(logs, "out"), 0.0
        needs = access(Installation(argv[0], "1"), None, folder.path, {})
        confinement = held.enter_context(BY_NAME[level].confined(needs))
        start = time.perf_counter()
        async with agent_process(b"", out, Path(logs, "err")) as process:
            await process.launch(
                argv, {}, folder.workdir, confinement=confinement, limits=(AgentLimits(), folder.path)
            )
            if idle:
                before = cpu_seconds(process.supervisor_pid)
                await anyio.sleep(idle)
                share = (cpu_seconds(process.supervisor_pid) - before) / idle
            else:
                await process.wait()
        return time.perf_counter() - start, await anyio.Path(out).read_text(), share


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def measure() -> None:
    levels = [name for name, level in BY_NAME.items() if level.support().works]
    times: dict[str, list[float]] = {level: [] for level in levels}
    calls: dict[str, list[float]] = {level: [] for level in levels}
    for _ in range(ROUNDS):
        for level in levels:
            times[level].append((await launched(level, ["/bin/true"]))[0])
            calls[level].append(float((await launched(level, [INTERPRETER, "-I", "-S", "-c", LOOP]))[1]))
    for level in levels:
        _, _, share = await launched(level, ["/bin/sleep", "60"], IDLE_SECONDS)
        print(
            f"{level:10} start to end {statistics.median(times[level]) * 1000:7.1f} ms   "
            f"a system call {statistics.median(calls[level]):6.1f} ns   supervisor {share:.2%} of a processor"
        )


if __name__ == "__main__":
    sys.exit(anyio.run(measure))
