"""Measure time and memory of report and export on a store, and compare with alternatives.

    python benchmarks/speed/synthetic_store.py FOLDER
    python benchmarks/speed/store_figures.py FOLDER

Commands run one at a time. CPU seconds are those of all their processes, as the kernel counts them. Memory is
the largest sum of their resident sizes, sampled ten times per second. Each command first runs on a quarter of
the runs, to show whether memory grows with the store. Then the rows of the export are written again with
`json.dumps` alone, and with `datasets` from memory, in batches. Each line has the machine's load; on a busy
machine, compare CPU seconds rather than wall time.
"""

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

BATCH = 1000
SHARE = 4
"""The smaller store has one of this many runs."""


@dataclass(frozen=True)
class Took:
    cpu: float
    wall: float
    mib: float = 0.0

    def __str__(self) -> str:
        memory = f", {self.mib:.0f} MiB" if self.mib else ""
        return f"{self.wall:.1f} s, {self.cpu:.1f} s CPU{memory} (load {os.getloadavg()[0]:.1f})"


def main(home: Path) -> None:
    runs = sorted(path.name for path in (home / "runs").iterdir())
    with tempfile.TemporaryDirectory(dir=home) as folder:
        out = Path(folder) / "train.jsonl"
        part = Path(folder) / "part"
        (part / "runs").mkdir(parents=True)
        for run in runs[::SHARE]:
            (part / "runs" / run).symlink_to(home / "runs" / run)
        export = ["export", "--min-partial", "0", "--force", "--out", str(out)]
        near = [*export, "--dedupe", "near"]
        command("(first run, which hashes held-out tasks)", [*export, "--run", runs[0]], home)
        for name, arguments in (
            ("report", ["report", "--json"]),
            ("export", export),
            ("export --jobs 1", [*export, "--jobs", "1"]),
            ("export --dedupe near", near),
        ):
            command(
                f"{name}, {len(runs[::SHARE])} of {len(runs)} runs", arguments, part, cache=home / "cache"
            )
            command(f"{name}, all", arguments, home)
        ours = command("export again", export, home)
        rows = sum(1 for _ in out.open("rb"))
        print(f"  {rows} rows, {out.stat().st_size / 1e6:.0f} MB")
        compare("json.dumps alone", by_json(out, Path(folder) / "plain.jsonl"), ours)
        compare("to_json of datasets", by_datasets(out, Path(folder) / "datasets.jsonl"), ours)


def command(name: str, arguments: list[str], home: Path, cache: Path | None = None) -> Took:
    """Run a command and print its time and memory."""
    environment = {**os.environ, "MCP_BENCH_HOME": str(home)}
    if cache is not None:
        environment["MCP_BENCH_CACHE"] = str(cache)
    begun, before = time.monotonic(), cpu(resource.RUSAGE_CHILDREN)
    child = subprocess.Popen(
        [sys.executable, "-m", "mcp_bench.bridge.cli.root", *arguments],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    most = 0
    while child.poll() is None:
        most = max(most, resident(child.pid))
        time.sleep(0.1)
    if child.returncode:
        raise SystemExit(f"{name}: exit code {child.returncode}")
    took = Took(cpu(resource.RUSAGE_CHILDREN) - before, time.monotonic() - begun, most / 2**20)
    print(f"{name}: {took}", flush=True)
    return took


def resident(pid: int) -> int:
    """Return the resident bytes of a process and its children. Shared memory counts for each of them."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:  # the process has ended
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE") + sum(resident(int(child)) for child in children)


def compare(name: str, theirs: Took, ours: Took) -> None:
    print(f"{name}: {theirs}")
    ratio = f"{ours.cpu / theirs.cpu:.1f} times its CPU, {ours.wall / theirs.wall:.1f} times its time"
    print(f"  export takes {ratio}")


def batches(data: Path) -> Iterator[list[dict[str, Any]]]:
    with data.open() as lines:
        while some := list(islice(lines, BATCH)):
            yield [json.loads(line) for line in some]


def by_json(data: Path, out: Path) -> Took:
    """Return the time to write the rows with `json.dumps`."""
    spent = Spent()
    with out.open("w") as file:
        for rows in batches(data):
            with spent:
                for row in rows:
                    file.write(json.dumps(row, ensure_ascii=False) + "\n")
    return spent.took


def by_datasets(data: Path, out: Path) -> Took:
    """Return the time to write the rows with `datasets` from memory."""
    from datasets import Dataset, Features, Json, List, Value, disable_progress_bars

    disable_progress_bars()
    spent = Spent()
    # nested values are JSON: as Arrow structs, arguments of one call would get the keys of all others
    nested = {"messages": List(Json()), "tools": List(Json()), "id": Value("string")}
    with out.open("wb") as file:
        for rows in batches(data):
            made = Dataset.from_list([{name: row[name] for name in nested} for row in rows], Features(nested))
            with spent:
                made.to_json(file, force_ascii=False)
    return spent.took


class Spent:
    """Sums the time of its `with` blocks."""

    def __init__(self) -> None:
        self.took = Took(0.0, 0.0)

    def __enter__(self) -> None:
        self._cpu, self._wall = cpu(), time.monotonic()

    def __exit__(self, *_: object) -> None:
        self.took = Took(self.took.cpu + cpu() - self._cpu, self.took.wall + time.monotonic() - self._wall)


def cpu(who: int = resource.RUSAGE_SELF) -> float:
    """Return the CPU seconds of this process, or of its ended children, so far."""
    usage = resource.getrusage(who)
    return usage.ru_utime + usage.ru_stime


if __name__ == "__main__":
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    given = parser.parse_args()
    if not (given.folder / "runs").is_dir():
        parser.error(f"there is no store in {given.folder}: make it with synthetic_store.py")
    main(given.folder.absolute())
