"""What edits of the harness and training bring a small real model: each alone, both, and by the rule.

    python benchmarks/learning/improve_figures.py OUT --start MODEL [--seeds 0 1 2]
        [--arms harness weights both rule] [--recipe smollm2-135m-cpu] [--set KEY=VALUE ...]
        [--families 25] [--train 6] [--dev 4] [--test 10]

MODEL is a model that solves some tasks of saasworld's level 1, such as one that was trained on few rows. For
each seed it attempts training tasks. Three harnesses are made from these recordings by `mcp-bench harness`:
tips, skills and examples. **They stand for a feedback agent: a script proposes them, in this order.** Then
`mcp-bench improve` runs once for each arm:

- harness: the three edits;
- weights: training on the model's own best attempts;
- both: training first, then the edits, on what the training made;
- rule: `--policy rule`, the edits first.

Numbers of tasks are those of each family; dev tasks have numbers from 500. OUT/table.md has each generation
and what is gained on test, with 95 % intervals. Typed again, the command continues where it stopped, also
with other seeds and arms.
"""

import argparse
import os
import subprocess
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from ablate_model import numbered
from same_options import same_options

from mcp_bench.recorder.atomic_file import write_atomic
from mcp_bench.trainer.folders import Outcome, once
from mcp_bench.trainer.improve.gate import FEWEST_TASKS, halves
from mcp_bench.trainer.trial.commands import MODULE, FruitlessStepError, run
from mcp_bench.trainer.trial.measuring import served, tasks
from mcp_bench.trainer.trial.recordings import record
from mcp_bench.trainer.trial.settings import TrialSettings

BENCHMARK = "saasworld"
ARMS = {
    "harness": "fixed:harness,harness,harness",
    "weights": "fixed:train",
    "both": "fixed:train,harness,harness,harness",
    "rule": "rule",
}
EDITS = ("tips", "skills", "examples")
FIRST_TRIED, FIRST_DEV = 1_000, 500
"""Numbers of the first task of each family."""


def ids(split: str, first: int, count: int, most: int | None) -> list[str]:
    """Return `count` tasks of each family of level 1 that a split has, of `most` families at most."""
    words = ["tasks", BENCHMARK, "--split", split, "--tag", "level-1", "--ids"]
    listed = subprocess.run([sys.executable, *MODULE, *words], check=True, capture_output=True, text=True)
    families = sorted({line.rsplit(".", 2)[0] for line in listed.stdout.split()})
    return list(numbered(families[:most], split, first, count))


def edits(out: Path, seed: int, train: Sequence[str], options: argparse.Namespace) -> list[str]:
    """Record the start on training tasks, and return the harnesses that can be made from that."""
    settings = TrialSettings(
        recipe=options.recipe,
        benchmark=BENCHMARK,
        dev=list(train),
        max_tokens=options.max_tokens,
        jobs=options.jobs,
        engine="torch",
        constrain_calls=True,
    )

    def attempt() -> Outcome:
        with served(options.start, f"start-{seed}", out / "start.port", settings) as endpoint:
            named = tasks(BENCHMARK, train, options.jobs)
            return {"run": record(out / "start.begun", [*endpoint, *named, "--seed", str(seed)])}

    attempts = once(out / "start.json", attempt)["run"]
    made = []
    for edit in EDITS:
        harness = out / "edits" / edit
        if not harness.is_dir():
            few = ["--most", "3"] if edit == "examples" else []
            try:
                run(["harness", edit, "--run", attempts, *few, "--out", str(harness)])
            except FruitlessStepError:
                continue  # nothing was learned of that kind
        made.append(str(harness))
    return made


def improve(folder: Path, arm: str, seed: int, lists: Sequence[Path], options: argparse.Namespace) -> Outcome:
    """Run an arm, or what is left of it, and return its history."""
    begun = (folder / "improve.json").is_file()
    words = [] if begun else arguments(folder.parent, arm, seed, lists, options)
    history: Outcome = run(["improve", str(folder), *words, "--json"])
    return history


def arguments(
    out: Path, arm: str, seed: int, lists: Sequence[Path], options: argparse.Namespace
) -> list[str]:
    """Return the options with which an arm begins."""
    words = ["--benchmark", BENCHMARK, "--recipe", options.recipe, "--set", f"model.base={options.start}"]
    words += [word for value in options.overrides for word in ("--set", value)]
    words += ["--set", f"training.seed={seed}", "--policy", ARMS[arm], "--seed", str(seed)]
    for name, path in zip(("train", "dev", "test"), lists, strict=True):
        words += [f"--{name}", str(path)]
    edited = [] if arm == "weights" else edits(out, seed, lists[0].read_text().split(), options)
    words += [word for harness in edited for word in ("--candidate", harness)]
    words += ["--repeat", "1", "--generations", "5", "--patience", "5", "--engine", "torch"]
    words += ["--max-tokens", str(options.max_tokens), "--jobs", str(options.jobs), "--constrain-calls"]
    return words


def interval(ends: Sequence[float] | None) -> str:
    return "" if ends is None else f" [{ends[0]:+.3f}, {ends[1]:+.3f}]"


def table(found: dict[str, dict[str, Any]]) -> str:
    """Return Markdown tables of the generations, and of test."""
    lines = [
        "| arm, seed | generation | tried | minus the best before, on dev | verdict |",
        "|---|---:|---|---|---|",
    ]
    for name, one in found.items():
        for made in one["generations"]:
            tried = made["reason"] if made["action"] == "harness" else made["action"]
            gain = f"{made['difference']:+.3f}{interval(made['interval'])}" if made["tasks"] else "-"
            lines.append(f"| {name} | {made['generation']} | {tried} | {gain} | {made['verdict']} |")
    lines += ["", "| arm, seed | test, start | gain of | on test |", "|---|---:|---|---|"]
    for name, one in found.items():
        shown = one.get("on_test") or {"means": [], "effects": []}
        start = next((cell["mean"] for cell in shown["means"] if cell["arm"] == "h0-w0"), None)
        for effect in [effect for effect in shown["effects"] if effect["of"] == "all tasks"] or [None]:
            gain = "-" if effect is None else f"{effect['value']:+.3f}{interval(effect['interval'])}"
            of = "nothing was promoted" if effect is None else effect["name"]
            lines.append(f"| {name} | {'-' if start is None else f'{start:.3f}'} | {of} | {gain} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path)
    parser.add_argument("--start", type=Path, required=True, help="folder of the model")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--arms", nargs="+", choices=list(ARMS), default=list(ARMS))
    parser.add_argument("--recipe", default="smollm2-135m-cpu")
    parser.add_argument("--set", dest="overrides", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--families", type=int, help="of each split, at most; default: all")
    parser.add_argument("--train", type=int, default=6, help="attempted tasks of each family")
    parser.add_argument("--dev", type=int, default=4, help="of them, about half confirm")
    parser.add_argument("--test", type=int, default=10)
    parser.add_argument("--max-tokens", type=int, default=300)
    parser.add_argument("--jobs", type=int, default=16)
    options = parser.parse_args()
    out, options.start = options.out.absolute(), options.start.absolute()
    out.mkdir(parents=True, exist_ok=True)
    same_options(parser, options, out / "options.json", ("out", "seeds", "arms", "jobs"))
    os.environ.setdefault("MCP_BENCH_HOME", str(out / "home"))
    wanted = {
        "train": ids("train", FIRST_TRIED, options.train, options.families),
        "dev": ids("dev", FIRST_DEV, options.dev, options.families),
        "test": ids("test", 0, options.test, options.families),
    }
    if min(map(len, halves(wanted["dev"]))) < FEWEST_TASKS:
        parser.error(f"--dev: each half needs {FEWEST_TASKS} tasks")
    lists = [out / f"{split}.txt" for split in wanted]
    for path, named in zip(lists, wanted.values(), strict=True):
        write_atomic(path, "\n".join(named) + "\n")
    found: dict[str, dict[str, Any]] = {}
    for seed in options.seeds:
        place = out / f"seed-{seed}"
        place.mkdir(exist_ok=True)
        for arm in options.arms:
            step = partial(improve, place / arm, arm, seed, lists, options)
            found[f"{arm}, {seed}"] = once(place / f"{arm}.json", step)
            write_atomic(out / "table.md", table(found))
    print((out / "table.md").read_text())


if __name__ == "__main__":
    main()
