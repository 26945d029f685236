"""Print every figure that has an aim, measured in one run beside the other projects' proxies, in one table.

    .venv/bin/python benchmarks/speed/synthetic_store.py FOLDER    # once, for the row of exports
    .venv/bin/python benchmarks/speed/scale_table.py --store FOLDER

It takes about four minutes on two quiet cores, without the peers. `--quick` takes one round of each, to see
that it works. All figures are medians of interleaved rounds. The table gives the load before and after: with
other programs on the machine, only the ratios to what ran in the same rounds mean something.
"""

import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from argparse import ArgumentParser
from collections.abc import Callable
from pathlib import Path

import anyio
import http_proxies
import many_sessions
import peers
import referees
import stdio_proxies
from load import machine, table

Rows = list[list[str]]


def calls(rounds: int) -> Rows:
    """Measure 64 sessions at once."""
    with tempfile.TemporaryDirectory() as root:
        rates = many_sessions.throughput(Path(root), 64, rounds)
    rows = []
    for world, aim in (("echo world", 2200.0), ("saasworld", 1700.0)):
        one, two = rates[world], rates[f"{world}, two referees"]
        rows.append(figure(f"calls/s, 64 sessions, {world}", statistics.median(one), aim, most=False))
        ratio = statistics.median(b / a for a, b in zip(one, two, strict=True))
        rows.append(figure(f"the same, two referees to one, {world}", ratio, 1.6, most=False))
    return rows


def stdio(rounds: int, envs: Path | None) -> Rows:
    """Measure proxies on stdio."""
    with tempfile.TemporaryDirectory() as name:
        cases = stdio_proxies.cases_of(envs, Path(name))
        extra = anyio.run(
            stdio_proxies.one_session,
            {**cases, stdio_proxies.FLOOR: stdio_proxies.between_cats(stdio_proxies.SERVER)},
            Path(name),
            rounds,
        )
        shares = anyio.run(stdio_proxies.many_sessions, cases, Path(name), max(1, rounds // 3))
    ours = stdio_proxies.OURS
    beside = {name: extra[name] for name in extra if name in (*cases, stdio_proxies.FLOOR)}
    return [
        figure("16 proxied stdio sessions, share of direct", shares[ours], 0.9, most=False, others=shares),
        figure("stdio, added, ms", extra[ours], 0.15, others=beside),
    ]


def over_http(rounds: int, envs: Path | None) -> Rows:
    """Measure proxies for streamable HTTP."""
    rows = []
    for answers, mode in reversed(http_proxies.MODES.items()):
        extra = http_proxies.compare(answers, mode, rounds, envs)
        rows.append(figure(f"HTTP, {answers}, added, ms", extra[http_proxies.OURS], 1.0, others=extra))
    return rows


def episodes(rounds: int) -> Rows:
    """Measure the oracle's episodes, the whole chain."""
    count = 120 if rounds > 1 else 24
    found = referees.compare([1, 2], count, 8, rounds)
    one, two = ([count / seconds for seconds, _, _ in found[number]] for number in (1, 2))
    ratio = statistics.median(b / a for a, b in zip(one, two, strict=True))
    return [
        figure("oracle episodes/s, saasworld", statistics.median(one), 20.0, most=False),
        figure("the same, two referees", statistics.median(two), 20.0, most=False),
        ["the same, two referees to one", f"{ratio:.2f}", "", "", ""],
    ]


def start(rounds: int) -> Rows:
    """Measure the CPU time of `--help`, beside an import of click."""
    program = str(Path(sys.executable).with_name("mcp-bench"))
    cases = {"help": [program, "--help"], "click": [sys.executable, "-c", "import click"]}
    used: dict[str, list[float]] = {name: [] for name in cases}
    for _ in range(rounds + 1):  # the first round warms the file cache
        for name, command in cases.items():
            before = children_cpu()
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            used[name].append(children_cpu() - before)
    ratio = statistics.median(a / b for a, b in zip(used["help"][1:], used["click"][1:], strict=True))
    return [figure("mcp-bench --help, CPU, to an import of click", ratio, 1.5)]


def export(rounds: int, store: Path) -> Rows:
    """Measure an export of a whole store."""
    environment = {**os.environ, "MCP_BENCH_HOME": str(store)}
    program = [sys.executable, "-m", "mcp_bench.bridge.cli.root", "export", "--min-partial", "0", "--force"]
    walls = []
    with tempfile.TemporaryDirectory(dir=store) as folder:
        for _ in range(rounds):
            begun, before = time.monotonic(), children_cpu()
            command = [*program, "--out", str(Path(folder) / "train.jsonl")]
            subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)
            walls.append(time.monotonic() - begun)
            print(f"export: {walls[-1]:.1f} s, {children_cpu() - before:.1f} s CPU", flush=True)
    return [figure("export of the store, s", statistics.median(walls), 25.0)]


def children_cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def figure(
    name: str, found: float, aim: float, *, most: bool = True, others: dict[str, float] | None = None
) -> list[str]:
    """Return a row of the table. `most` says that the aim is an upper limit."""
    ours = (stdio_proxies.OURS, "direct")
    beside = "; ".join(f"{key} {value:.2f}" for key, value in (others or {}).items() if key not in ours)
    reached = found <= aim if most else found >= aim
    return [name, f"{found:,.2f}", f"{'<=' if most else '>='} {aim:g}", "yes" if reached else "no", beside]


def main() -> None:
    parser = ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--envs", type=Path, default=peers.ENVS, help="folder with the peers' environments")
    parser.add_argument("--no-peers", action="store_true", help="measure only mcp-bench")
    parser.add_argument("--store", type=Path, help="folder made by synthetic_store.py; without it, no export")
    parser.add_argument("--quick", action="store_true", help="one round of each")
    options = parser.parse_args()
    if options.store is not None and not (options.store / "runs").is_dir():
        parser.error(f"--store: there is no store in {options.store}: make it with synthetic_store.py")
    envs = None if options.no_peers else options.envs
    if envs is not None:  # an installation would disturb the figures
        peers.bin_of(peers.FASTMCP, envs)
        peers.bin_of(peers.MCP_PROXY, envs)
    few, many = (1, 1) if options.quick else (3, 9)
    parts: list[Callable[[], Rows]] = [
        lambda: calls(few),
        lambda: stdio(many, envs),
        lambda: over_http(many, envs),
        lambda: episodes(few),
        lambda: start(many),
    ]
    if options.store is not None:
        parts.append(lambda: export(1 if options.quick else 2, options.store.absolute()))
    before = machine()
    print(before, flush=True)
    begun, rows = time.monotonic(), []
    for part in parts:
        rows += part()
        print(f"\n({time.monotonic() - begun:.0f} s so far)", flush=True)
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    width = shutil.get_terminal_size().columns
    print("\n" + "=" * min(width, 110) + "\n")
    print(table(["figure", "measured", "aim", "reached", "in the same rounds"], rows))
    print(f"\n{time.monotonic() - begun:.0f} s; {before}; load after: {load}")


if __name__ == "__main__":
    main()
