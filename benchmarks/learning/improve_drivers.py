"""What the drivers of `search` reach with the same budget, with a scripted proposer in place of a model.

    python benchmarks/learning/improve_drivers.py [--task codec.train.0]... [--driver single]...
        [--steps 12] [--repeats 2] [--path DIR] [--html FILE]

The proposer is no model: it takes the last version of the request and changes one thing at random, such as a
setting of a compressor, or whether a prompt has an example; one of six proposals is broken. So drivers differ
only by what they show. What it changes in each task is in `improve_proposals.py`. Sandboxes and held-out data
are real. Prints a table, and with --html writes the report with the score over runs.
"""

from __future__ import annotations

import argparse
import math
import os
import re
import statistics
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from random import Random

from improve_proposals import CHANGES, TASKS
from scripted_model import scripted_model

DRIVERS = ("single", "icl", "best-of-n", "puct", "evolve")
REPEAT = [0]
ASKED: Counter[str] = Counter()
"""How many requests were made for each task in this repeat, by this driver."""


def proposed(text: str) -> str:
    """Return an answer to a request. Its chance follows from the request alone."""
    versions = re.findall(r"^Version (\d+):", text, re.MULTILINE)
    task = next(name for name in CHANGES if " ".join(TASKS[name].readme.split()) in " ".join(text.split()))
    rng = Random(f"{REPEAT[0]} {ASKED[task]} {versions}")
    ASKED[task] += 1
    version = re.findall(r"^```\n(.*?)\n```$", text, re.MULTILINE | re.DOTALL)[-1]
    program = CHANGES[task].proposed(version, rng).rstrip("\n")
    return f"```\n{program}\n```"


def recorded(
    url: str, tasks: list[str], driver: str, repeat: int, options: argparse.Namespace, home: Path
) -> None:
    """Record one attempt at each task, one after the other."""
    REPEAT[0] = repeat
    ASKED.clear()
    argv = [
        sys.executable,
        "-m",
        "mcp_bench.bridge.cli.root",
        "record",
        "--agent",
        "search",
        "--benchmark",
        "improve",
        "--model",
        "scripted",
        "--base-url",
        url,
        "--isolation",
        "none",
        "--agent-option",
        f"driver={driver}",
        "--agent-option",
        f"max_steps={options.steps}",
        "--agent-option",
        f"seed={repeat}",
        "--run-tag",
        driver,
        "--retries",
        "0",
        *(f"--task={task}" for task in tasks),
        *(("--path", str(options.path)) if options.path else ()),
    ]
    env = {**os.environ, "MCP_BENCH_HOME": str(home), "OPENAI_API_KEY": "dummy-key-0123456789"}
    done = subprocess.run(argv, env=env, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(done.stdout + done.stderr)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--task", action="append", help="NAME.SPLIT.NUMBER; can be repeated")
    parser.add_argument("--driver", choices=DRIVERS, action="append", help="default: all; can be repeated")
    parser.add_argument("--steps", type=int, default=12, help="proposals for each attempt")
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--html", type=Path)
    parser.add_argument("--path", type=Path, help="folder of tasks, such as a changed copy of one of these")
    options = parser.parse_args()
    tasks, drivers = options.task or ["codec.train.0"], options.driver or DRIVERS
    with scripted_model(proposed) as url, tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        for repeat in range(options.repeats):
            for driver in drivers:
                recorded(url, tasks, driver, repeat, options, home)
            print_table(home, drivers, options.steps)
        if options.html:
            argv = [sys.executable, "-m", "mcp_bench.bridge.cli.root", "report", "--html", str(options.html)]
            subprocess.run(argv, env={**os.environ, "MCP_BENCH_HOME": str(home)}, check=True)


def print_table(home: Path, drivers: Sequence[str], steps: int) -> None:
    """Print a row for each task: by driver, the median held-out score and partial credit."""
    from mcp_bench.recorder.runs.reader import RunReader

    found: dict[str, dict[str, list[tuple[float | None, float]]]] = {}
    ends: dict[str, list[tuple[float, float]]] = {}
    for path in sorted((home / "runs").iterdir()):
        with RunReader(path) as reader:
            driver = reader.info().settings.options["driver"]
            for episode in reader.episodes():
                assert episode.partial is not None, "the attempt was not graded"
                cells = found.setdefault(episode.task, {name: [] for name in drivers})
                value, measured = None, ends.setdefault(episode.task, [])
                if episode.score is not None:
                    value = episode.score.value
                    measured.append((episode.score.baseline or 0.0, episode.score.par or 0.0))
                cells[driver].append((value, episode.partial))
    print(f"{steps} proposals each, by a scripted proposer. Medians of held-out scores (and of partial)")
    print(f"| task | baseline | reference | {' | '.join(f'`{driver}`' for driver in drivers)} | attempts |")
    print(f"|---|{'---:|' * (len(drivers) + 3)}")
    for task, by_driver in found.items():
        # baseline and reference are measured anew in each attempt; not where nothing better was found
        low, high = map(statistics.median, zip(*ends[task] or [(math.nan, math.nan)], strict=True))
        row = [f"`{task}`", f"{low:.3g}", f"{high:.3g}"]
        for scores in by_driver.values():
            # without a score, nothing was better, and the baseline was graded
            value = statistics.median(low if one is None else one for one, _ in scores)
            row.append(f"{value:.3g} ({statistics.median(part for _, part in scores):.2f})")
        print(f"| {' | '.join(row)} | {len(scores)} |", flush=True)


if __name__ == "__main__":
    main()
