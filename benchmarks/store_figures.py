"""How long report and export take on a store, what memory they need, and how that compares.

    python benchmarks/synthetic_store.py FOLDER
    python benchmarks/store_figures.py FOLDER

Each command runs as a process of its own; its CPU seconds and its largest resident size are the kernel's. The
rows of the export are then written once more by `json.dumps` alone, their messages and tools by `datasets`,
from memory, a batch at a time.
The load of the machine is printed with each line: on a busy one only CPU seconds say something.
"""

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

BATCH = 1000


def main(home: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "train.jsonl"
        environment = {**os.environ, "MCP_BENCH_HOME": str(home)}
        export = ["export", "--min-partial", "0", "--force", "--out", str(out)]
        command("report", ["report", "--json"], environment)
        command("export, first time (held-out tasks are hashed)", export, environment)
        ours = command("export", export, environment)
        print(f"  {sum(1 for _ in out.open('rb'))} rows, {out.stat().st_size / 1e6:.0f} MB")
        plain = by_json(out, Path(folder) / "plain.jsonl")
        told("json.dumps alone", plain)
        print(f"  export takes {ours / plain:.1f} times the CPU of json.dumps")
        theirs = by_datasets(out, Path(folder) / "datasets.jsonl")
        told("datasets' to_json", theirs)
        print(f"  export takes {ours / theirs:.1f} times the CPU of datasets")
        command("export --dedupe near", [*export, "--dedupe", "near"], environment)


def command(name: str, arguments: list[str], environment: dict[str, str]) -> float:
    """Run a command and print what it took; return its CPU seconds."""
    begun = time.monotonic()
    child = subprocess.Popen(
        [sys.executable, "-m", "mcp_bench.bridge.cli.root", *arguments],
        env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise SystemExit(f"{name}: exit code {child.returncode}")
    seconds = usage.ru_utime + usage.ru_stime
    told(name, seconds, time.monotonic() - begun, usage.ru_maxrss)
    return seconds


def told(name: str, cpu: float, wall: float | None = None, kib: int | None = None) -> None:
    parts = [f"{cpu:.1f} s CPU"]
    if wall is not None and kib is not None:
        parts += [f"{wall:.1f} s", f"{kib / 1024:.0f} MiB"]
    print(f"{name}: {', '.join(parts)} (load {os.getloadavg()[0]:.1f})", flush=True)


def batches(data: Path) -> Iterator[list[dict[str, Any]]]:
    with data.open() as lines:
        while some := list(islice(lines, BATCH)):
            yield [json.loads(line) for line in some]


def by_json(data: Path, out: Path) -> float:
    """Return the CPU seconds of writing the rows."""
    spent = 0.0
    with out.open("w") as file:
        for rows in batches(data):
            begun = cpu()
            for row in rows:
                file.write(json.dumps(row, ensure_ascii=False) + "\n")
            spent += cpu() - begun
    return spent


def by_datasets(data: Path, out: Path) -> float:
    """Return the CPU seconds of writing the rows, from a data set that is in memory."""
    from datasets import Dataset, Features, Json, List, Value

    spent = 0.0
    nested = {"messages": List(Json()), "tools": List(Json()), "id": Value("string")}
    for rows in batches(data):
        kept = [{name: row[name] for name in nested} for row in rows]
        made = Dataset.from_list(kept, features=Features(nested))
        begun = cpu()
        made.to_json(out, force_ascii=False)
        spent += cpu() - begun
    return spent


def cpu() -> float:
    """Return the CPU seconds of this process so far."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


if __name__ == "__main__":
    main(Path(sys.argv[1]))
