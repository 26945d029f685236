"""How much a model learns from how many rows and families, with and without constrained decoding.

    python benchmarks/learning/learning_curves.py OUT [--recipe smollm2-135m-cpu] [--rows 250 1000 2000]
        [--families 1 5 25] [--seeds 3] [--decoding free constrained] [--dev 4] [--test 10] [--only-practice]

Models are trained on the oracle's episodes of level 1: on each number of rows, of all families that train
has, and on the least number of rows, of each number of families. A larger number of families than train has
takes those of practice besides, for each number of rows: 200 is all of them. Models are measured on dev tasks
of all families that train has, and on test tasks of families that it has not; the groups of the table divide
the former into trained and new ones. Dev tasks have numbers from 500, which nothing else reports.
OUT/table.md has each seed's scores with 95 % intervals.

With --only-practice, models learn from families of practice alone, so all of dev is new to them: choose
settings for new families on it, with --test 0.

Every model and every measurement is a step with a result file: typed again, the command continues where it
stopped, also with other rows, families, seeds and decodings. The oracle plays each task once; smaller sets
are parts of larger ones.
"""

import argparse
import json
import os
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from same_options import same_options

from mcp_bench.recorder.atomic_file import write_atomic
from mcp_bench.servers.registry import load
from mcp_bench.trainer.folders import Outcome, once
from mcp_bench.trainer.loop.training import train_model
from mcp_bench.trainer.trial.commands import export
from mcp_bench.trainer.trial.measuring import served, tasks
from mcp_bench.trainer.trial.recipe import trial_recipe
from mcp_bench.trainer.trial.recordings import record
from mcp_bench.trainer.trial.scores import MEASURED, scores_by_group
from mcp_bench.trainer.trial.settings import TrialSettings

BENCHMARK, LEVEL = "saasworld", "level-1"
FIRST_DEV = 500
FREE = ("out", "rows", "families", "seeds", "decoding", "jobs", "only_practice")
"""Options that can differ when the command is typed again."""
DECODING = {"free": False, "constrained": True}


def families_of(split: str) -> list[str]:
    """Return the families of a split, as the beginnings of task ids, in alphabetical order."""
    found = (task for task in load("benchmark", BENCHMARK).tasks(split, None) if LEVEL in task.tags)
    return sorted({task.id.rsplit(".", 2)[0] for task in found})


def chosen(families: Sequence[str], rows: int) -> list[str]:
    """Return the training tasks: equally many of each family."""
    return [f"{families[at % len(families)]}.train.{at // len(families)}" for at in range(rows)]


class Curves:
    """The steps, each stored in the folder."""

    def __init__(self, out: Path, options: argparse.Namespace) -> None:
        self.out = out
        self.options = options
        self.recipe = out / "recipe.yaml"
        measured = families_of("train")[: options.all_families]
        practice = families_of("practice")[: options.all_families]
        self.trained, self.more = (practice, []) if options.only_practice else (measured, practice)
        self.dev = [f"{name}.dev.{FIRST_DEV + n}" for n in range(options.dev) for name in measured]
        test = families_of("test")[: options.all_families]
        ids = self.dev, [f"{name}.test.{n}" for n in range(options.test) for name in test]
        self.measures = [(split, some) for split, some in zip(MEASURED, ids, strict=True) if some]

    def families(self, number: int, seed: int) -> list[str]:
        """Return the families of a seed: other seeds begin elsewhere in the list."""
        if number > len(self.trained):
            return [*self.trained, *self.more[: number - len(self.trained)]]
        start = seed * number % len(self.trained)
        return [*self.trained, *self.trained][start : start + number]

    def cells(self) -> Iterator[tuple[int, int, int]]:
        """Yield (rows, families, seed), all of the first seed before the next."""
        sizes, most = sorted(self.options.rows), len(self.trained) + len(self.more)
        numbers = sorted({min(number, most) for number in self.options.families})
        large = [number for number in numbers if number >= min(len(self.trained), numbers[-1])]
        for seed in range(self.options.seeds):
            yield from ((sizes[0], number, seed) for number in numbers)
            yield from ((rows, number, seed) for rows in sizes[1:] for number in large)

    def rows(self, wanted: Sequence[str]) -> dict[str, str]:
        """Return the line of the export for each task. The oracle plays those that it has not played yet."""
        found: dict[str, str] = {}
        number = 0
        while new := sorted(set(wanted) - set(found)):
            number += 1
            data = self.out / f"oracle-{number}.jsonl"
            step = once(self.out / f"oracle-{number}.json", partial(self.play, data, new))
            lines = [(json.loads(line)["task"], line) for line in data.read_text().split("\n") if line]
            found |= dict(lines)
            if lost := sorted(set(step["tasks"]) - set(found)):
                raise SystemExit(f"{len(lost)} tasks have no row in {data}, such as {lost[0]}")
        return found

    def play(self, data: Path, new: Sequence[str]) -> Outcome:
        named = tasks(BENCHMARK, new, self.options.jobs)
        run = record(data.with_suffix(".begun"), ["--agent", "oracle", *named])
        return {**export(data, ["--run", run, "--min-partial", "1"]), "run": run, "tasks": new}

    def model(self, rows: int, families: int, seed: int) -> Outcome:
        kind = "practice-families" if self.options.only_practice else "families"
        folder = self.out / f"{rows}-rows-{families}-{kind}-seed-{seed}"
        wanted = chosen(self.families(families, seed), rows)

        def train() -> Outcome:
            data, lines = folder / "train.jsonl", self.rows(wanted)
            write_atomic(data, "".join(f"{lines[task]}\n" for task in wanted))
            return train_model(self.recipe, data, folder / "train", [f"training.seed={seed}"])

        folder.mkdir(exist_ok=True)
        return {**once(folder / "train.json", train), "folder": str(folder), "tasks": wanted}

    def measured(self, trained: Outcome, decoding: str) -> Outcome:
        folder = Path(trained["folder"])
        options = self.options
        settings = TrialSettings(
            recipe=str(self.recipe),
            benchmark=BENCHMARK,
            dev=self.dev,
            max_tokens=options.max_tokens,
            jobs=options.jobs,
            engine=options.engine,
            constrain_calls=DECODING[decoding],
        )

        def measure() -> Outcome:
            found: Outcome = {}
            port = folder / f"{decoding}.port"
            with served(Path(trained["model"]), f"{folder.name}-{decoding}", port, settings) as endpoint:
                for split, ids in self.measures:
                    named = tasks(BENCHMARK, ids, options.jobs)
                    run = record(folder / f"{decoding}-{split}.begun", [*endpoint, *named])
                    found[split] = scores_by_group(run, trained["tasks"])
            return found

        return once(folder / f"{decoding}.json", measure)


def table(found: dict[tuple[int, int, str], list[Outcome]]) -> str:
    """Return a Markdown table: a row for each number of rows and families, and each decoding."""
    groups = sorted(
        {
            (split, group)
            for cell in found.values()
            for one in cell
            for split in MEASURED
            if split in one
            for group in one[split]["groups"]
        }
    )
    heads = ["rows", "families", "decoding", *(f"{split}, {group}" for split, group in groups)]
    lines = ["| " + " | ".join(heads) + " |", "|---:|---:|---|" + "---:|" * len(groups)]
    for (rows, families, decoding), cell in sorted(found.items()):
        scores = [
            _cell([one[split]["groups"].get(group) for one in cell if split in one])
            for split, group in groups
        ]
        lines.append("| " + " | ".join([str(rows), str(families), decoding, *scores]) + " |")
    return "Partial scores of each seed, with 95 % intervals.\n\n" + "\n".join(lines) + "\n"


def _cell(scores: Sequence[dict[str, Any] | None]) -> str:
    return "; ".join(_score(one) for one in scores if one and one["partial"] is not None) or "-"


def _score(one: dict[str, Any]) -> str:
    """Return the score, with its interval: a single task has none."""
    ends = ", ".join(f"{end:.3f}" for end in one["partial_ci"] or ())
    return f"{one['partial']:.3f}" + (f" [{ends}]" if ends else "")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path)
    parser.add_argument("--recipe", default="smollm2-135m-cpu")
    parser.add_argument("--set", dest="overrides", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--rows", type=int, nargs="+", default=[250, 1000, 2000])
    parser.add_argument("--families", type=int, nargs="+", default=[1, 5, 25])
    parser.add_argument("--only-practice", action="store_true", help="learn from families of practice alone")
    parser.add_argument("--all-families", type=int, default=None, help="measure on this many only")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--decoding", nargs="+", choices=list(DECODING), default=list(DECODING))
    parser.add_argument("--dev", type=int, default=4, help="dev tasks of each family")
    parser.add_argument("--test", type=int, default=10, help="test tasks of each family")
    parser.add_argument("--max-tokens", type=int, default=200)
    parser.add_argument("--jobs", type=int, default=4)
    parser.add_argument("--engine", default="auto")
    options = parser.parse_args()
    out = options.out.absolute()
    out.mkdir(parents=True, exist_ok=True)
    same_options(parser, options, out / "options.json", FREE)
    os.environ.setdefault("MCP_BENCH_HOME", str(out / "home"))
    curves = Curves(out, options)
    if not curves.recipe.is_file():
        write_atomic(curves.recipe, trial_recipe(options.recipe, options.overrides))
    found: dict[tuple[int, int, str], list[Outcome]] = {}
    for rows, families, seed in curves.cells():
        trained = curves.model(rows, families, seed)
        for decoding in options.decoding:
            found.setdefault((rows, families, decoding), []).append(curves.measured(trained, decoding))
            write_atomic(out / "table.md", table(found))
    print((out / "table.md").read_text())


if __name__ == "__main__":
    main()
