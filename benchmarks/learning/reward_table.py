"""What a half-trained tiny model learns from reward, from preferences, and from more imitation.

    python benchmarks/learning/reward_table.py OUT [--methods grpo-imitate rft grpo best dpo sft]
        [--seeds 0 1 2] [--steps 20] [--recordings 5] [--turns 8] [--recipe FILE] [--set KEY=VALUE ...]
        [--rows 60] [--epochs 2] [--dev 24] [--curve 40]

For each seed, a model is trained on some rows of the oracle, on the demo's seven families: it solves some
tasks, and not others. From there,

- grpo, dr-grpo, rloo, gspo and cispo learn from the rewards of live attempts, in `--steps` steps of the
  recipe tiny-cpu-grpo;
- grpo-imitate is grpo that also imitates what it solved, with attempts that are held to the tools' schemas,
  in `--recordings` steps of the recipe tiny-cpu-grpo-imitate, each of which makes 800 attempts;
- rft imitates solved live attempts, in `--recordings` steps of the recipe tiny-cpu-rft;
- best and dpo learn from attempts of the start, as many episodes as the first method above took: best
  imitates a solved one at each task (`train rft`), dpo prefers the better one of pairs;
- sft goes on with so many episodes of the oracle.

All are measured on the same dev tasks (numbers from 500), greedily. OUT/table.md has the scores, and the
paired differences from the start with 95 % intervals. With `--curve`, methods with live attempts are measured
on other dev tasks (numbers from 600) every so many updates. Every step has a result file: typed again, the
command continues where it stopped, also with other seeds, and other methods after the first.
"""

import argparse
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

from same_options import same_options

from mcp_bench.recorder.atomic_file import write_atomic
from mcp_bench.trainer.folders import Outcome, once
from mcp_bench.trainer.loop.training import learn_online, make_base, train_model
from mcp_bench.trainer.trial.commands import FruitlessStepError, export
from mcp_bench.trainer.trial.measuring import served, tasks
from mcp_bench.trainer.trial.recipe import trial_recipe
from mcp_bench.trainer.trial.recordings import record
from mcp_bench.trainer.trial.scores import flips, scores
from mcp_bench.trainer.trial.settings import TrialSettings

BENCHMARK = "saasworld"
FAMILIES = (
    "contact-details",
    "employee-record",
    "invoice-due-date",
    "order-address",
    "product-details",
    "task-progress",
    "ticket-status",
)
FIRST_TRIED, FIRST_SHOWN, FIRST_DEV, FIRST_CURVE = 1_000, 10_000, 500, 600
ONLINE = ("grpo", "dr-grpo", "rloo", "gspo", "cispo", "rft", "grpo-imitate")
OFFLINE = ("best", "dpo", "sft")
USUAL = ["grpo-imitate", "rft", "grpo", "best", "dpo", "sft"]
ATTEMPTS = 4
LARGE = {"rft": "tiny-cpu-rft", "grpo-imitate": "tiny-cpu-grpo-imitate"}
"""Recipes with many attempts, and many updates, in each step."""
OTHERWISE = "tiny-cpu-grpo"


def ids(split: str, first: int, count: int) -> list[str]:
    """Return the ids of so many tasks, in turn of each family."""
    return [
        f"simple-{FAMILIES[at % len(FAMILIES)]}.1.{split}.{first + at // len(FAMILIES)}"
        for at in range(count)
    ]


def recipe_of(method: str, out: Path, options: argparse.Namespace) -> Path:
    """Return the file of a method's recipe, which is written at first."""
    path = out / f"recipe-{method}.yaml"
    if not path.is_file():
        named = options.recipe or LARGE.get(method, OTHERWISE)
        write_atomic(path, trial_recipe(named, options.overrides))
    return path


class Seed:
    """The steps of one seed, each stored in its folder."""

    def __init__(self, out: Path, recipe: Path, seed: int, options: argparse.Namespace) -> None:
        self.out, self.recipe, self.seed, self.options = out / f"seed-{seed}", recipe, seed, options
        self.out.mkdir(exist_ok=True)
        self.dev = ids("dev", FIRST_DEV, options.dev * len(FAMILIES))

    def taught(self, name: str, wanted: Sequence[str], overrides: Sequence[str]) -> Outcome:
        """Train on the oracle's episodes of some tasks; without a base among the overrides, make one."""
        rows = self.out / f"{name}.jsonl"

        def teach() -> Outcome:
            arguments = ["--agent", "oracle", *tasks(BENCHMARK, wanted, self.options.jobs)]
            run = record(self.out / f"{name}.begun", arguments)
            return export(rows, ["--run", run, "--min-partial", "1"])

        def base() -> Outcome:
            make_base(self.recipe, [rows], self.out / "base", self.seed, self.options.base_steps)
            return {"model": str(self.out / "base")}

        once(self.out / f"{name}-rows.json", teach)
        if not overrides:
            overrides = [f"model.base={once(self.out / 'base.json', base)['model']}"]
        over = [*overrides, f"training.seed={self.seed}", f"training.epochs={self.options.epochs}"]
        return once(self.out / f"{name}.json", partial(train_model, self.recipe, rows, self.out / name, over))

    def start(self) -> Outcome:
        return self.taught("start", ids("train", 0, self.options.rows * len(FAMILIES)), [])

    def method(self, name: str, start: Path, episodes: int | None) -> Outcome:
        """Train the start by a method.

        Args:
            name: the method.
            start: the model to start from.
            episodes: how many a method without live attempts may use.
        """
        if name in ONLINE:
            return once(self.out / f"{name}.json", partial(self._online, name, start))
        if episodes is None:
            raise SystemExit(f"{name} takes as many episodes as the first method, which has made none")
        if name == "sft":
            return self.taught("sft", ids("train", FIRST_SHOWN, episodes), [f"model.base={start}"])
        learn = self._preferences if name == "dpo" else self._best
        return once(self.out / f"{name}.json", partial(learn, start, episodes))

    def _online(self, name: str, start: Path) -> Outcome:
        options = self.options
        listed = self.out / "tasks.txt"
        write_atomic(listed, "".join(f"{task}\n" for task in ids("train", FIRST_TRIED, options.tasks)))
        steps = options.recordings if name in LARGE else options.steps
        words = ["--algorithm", name.removesuffix("-imitate"), "--steps", str(steps)]
        words += ["--seed", str(self.seed), "--jobs", str(options.jobs)]
        if options.curve:
            followed = self.out / "curve.txt"
            named = ids("dev", FIRST_CURVE, options.dev * len(FAMILIES))
            write_atomic(followed, "".join(f"{task}\n" for task in named))
            words += ["--dev", str(followed), "--dev-every", str(options.curve)]
        if options.turns:
            words += ["--", "--agent-option", f"max_steps={options.turns}"]
        recipe = recipe_of(name, self.out.parent, options)
        return learn_online(recipe, start, listed, self.out / name, words)

    def _preferences(self, start: Path, episodes: int) -> Outcome:
        more = ["--pairs", "--margin", "0.3", "--min-partial", "0"]
        return self._trained("dpo", start, episodes, more, [], "dpo")

    def _best(self, start: Path, episodes: int) -> Outcome:
        epochs = f"training.epochs={self.options.epochs}"
        return self._trained("best", start, episodes, ["--min-partial", "1", "--best", "1"], [epochs], "sft")

    def _trained(
        self, name: str, start: Path, episodes: int, more: Sequence[str], over: Sequence[str], method: str
    ) -> Outcome:
        """Train the start on what is exported of its own attempts."""
        run = once(self.out / "tried.json", partial(self._tried, start, episodes))["run"]
        data = self.out / f"{name}.jsonl"
        over = [f"model.base={start}", f"training.seed={self.seed}", *over]
        try:
            export(data, ["--run", run, *more])
            return train_model(self.recipe, data, self.out / name, over, method)
        except FruitlessStepError as error:  # nothing to learn from, or a training that diverged
            return {"model": None, "why": str(error)}

    def _tried(self, start: Path, episodes: int) -> Outcome:
        """Record attempts of the start at training tasks."""
        wanted = ids("train", FIRST_TRIED, max(1, episodes // ATTEMPTS))
        more = ["--repeat", str(ATTEMPTS), "--agent-option", f"temperature={self.options.temperature}"]
        with self.endpoint("tried", start) as endpoint:
            named = tasks(BENCHMARK, wanted, self.options.jobs)
            return {"run": record(self.out / "tried.begun", [*endpoint, *named, *more])}

    def measured(self, name: str, model: Path) -> Outcome:
        def measure() -> Outcome:
            with self.endpoint(name, model) as endpoint:
                named = tasks(BENCHMARK, self.dev, self.options.jobs)
                return scores(record(self.out / f"{name}-dev.begun", [*endpoint, *named]))

        return once(self.out / f"{name}-dev.json", measure)

    @contextmanager
    def endpoint(self, name: str, model: Path) -> Iterator[list[str]]:
        settings = TrialSettings(
            recipe=str(self.recipe),
            benchmark=BENCHMARK,
            dev=self.dev,
            max_tokens=self.options.max_tokens,
            jobs=self.options.jobs,
            engine="torch",
        )
        with served(model, f"{self.out.name}-{name}", self.out / f"{name}.port", settings) as arguments:
            yield arguments


def table(found: dict[str, list[dict[str, Any]]]) -> str:
    """Return a Markdown table of the methods, and one of their families."""
    lines = [
        "| method | episodes | dev partial: mean (each seed) | minus the start, each seed |",
        "|---|---:|---:|---|",
    ]
    for name, cells in found.items():
        each = [cell["scores"]["partial"] for cell in cells]
        counts = ", ".join(f"{cell['episodes']:,}" for cell in cells if cell["episodes"])
        gains = [cell["gain"] for cell in cells if cell["gain"]]
        changed = "; ".join(
            f"{one['difference']:+.3f} [{', '.join(f'{end:+.3f}' for end in one['difference_ci'])}]"
            for one in gains
        )
        shown = ", ".join(f"{score:.3f}" for score in each)
        lines.append(f"| {name} | {counts or '-'} | {fmean(each):.3f} ({shown}) | {changed or '-'} |")
    families = sorted(
        {family for cells in found.values() for cell in cells for family in cell["scores"]["families"]}
    )
    lines += ["", f"| family | {' | '.join(found)} |", "|---|" + "---:|" * len(found)]
    for family in families:
        means = [
            fmean([cell["scores"]["families"][family]["partial"] for cell in cells])
            for cells in found.values()
        ]
        lines.append(f"| {family} | {' | '.join(f'{mean:.3f}' for mean in means)} |")
    return "\n".join(lines) + "\n"


def take(seed: Seed, methods: Sequence[str], found: dict[str, list[dict[str, Any]]]) -> None:
    """Take all steps of a seed, and add what was found."""
    start = Path(seed.start()["model"])
    before = seed.measured("start", start)
    found.setdefault("start", []).append({"scores": before, "episodes": None, "gain": None})
    episodes: int | None = None
    for name in methods:
        made = seed.method(name, start, episodes)
        used = made.get("episodes") or episodes
        episodes = episodes or used
        if made["model"] is None:
            print(f"{seed.out.name}, {name}: {made['why']}")
            continue
        after = seed.measured(name, Path(made["model"]))
        gain = flips(before["run"], after["run"])["partial"]
        found.setdefault(name, []).append({"scores": after, "episodes": used, "gain": gain})


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path)
    parser.add_argument("--recipe", help=f"for all methods; default: that of a method, else {OTHERWISE}")
    parser.add_argument("--set", dest="overrides", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--methods", nargs="+", choices=[*ONLINE, *OFFLINE], default=USUAL)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--steps", type=int, default=20, help="of the other methods with live attempts")
    parser.add_argument("--recordings", type=int, default=5, help=f"steps of {' and '.join(LARGE)}")
    parser.add_argument("--turns", type=int, help="limit of each live attempt; default: the agent's")
    parser.add_argument(
        "--rows", type=int, default=60, help="the oracle's rows of each family, for the start"
    )
    parser.add_argument("--epochs", type=float, default=2, help="over these rows")
    parser.add_argument("--base-steps", type=int, default=None)
    parser.add_argument("--tasks", type=int, default=1400, help="training tasks to attempt")
    parser.add_argument("--temperature", type=float, default=1.0, help="of the attempts for best and dpo")
    parser.add_argument("--dev", type=int, default=24, help="dev tasks of each family")
    parser.add_argument("--curve", type=int, default=0, help="updates between measurements meanwhile")
    parser.add_argument("--max-tokens", type=int, default=72)
    parser.add_argument("--jobs", type=int, default=16)
    options = parser.parse_args()
    if options.methods[0] in OFFLINE:
        first = f"--methods: {options.methods[0]} takes as many episodes as a method with live attempts"
        parser.error(f"{first}: begin with one, such as {ONLINE[0]}")
    out = options.out.absolute()
    out.mkdir(parents=True, exist_ok=True)
    same_options(parser, options, out / "options.json", ("out", "methods", "seeds", "jobs"))
    os.environ.setdefault("MCP_BENCH_HOME", str(out / "home"))
    recipe = recipe_of("sft", out, options)
    found: dict[str, list[dict[str, Any]]] = {}
    for seed in options.seeds:
        take(Seed(out, recipe, seed, options), options.methods, found)
        write_atomic(out / "table.json", json.dumps(found, indent=1) + "\n")
        write_atomic(out / "table.md", table(found))
    print((out / "table.md").read_text())


if __name__ == "__main__":
    main()
