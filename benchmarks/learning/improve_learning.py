"""Learning while searching: GRPO and SDPO at improvement tasks, beside drivers of `search` that do not learn.

    python benchmarks/learning/improve_learning.py OUT [--task places.train.0 ...]
        [--methods grpo sdpo single icl puct] [--crossed] [--steps 12] [--attempts 16] [--proposals 12]
        [--set KEY=VALUE ...] [--seed 0]

The model is the tiny one of the demo. It cannot program: it is taught by the scripted proposer of
`improve_drivers.py`, on other variants of the same tasks, to answer a request with a version in which a few
things were changed at random, and to repeat a version that an earlier conversation shows. So it knows
what can be changed, and not what is better. From there, with the same number of proposals (`--steps` times
`--attempts`) at a task:

- grpo and sdpo learn from one proposal an attempt, made from the baseline; each task has a policy of its own;
- single, icl and puct search with the model as it is, `--proposals` in an attempt.

With `--crossed`, single and icl also search with the weights that grpo and sdpo learned: what the harness
brings (here the driver, an option in its agents.yaml), what the weights bring, and what both bring together.

OUT/table.md has the result of each and how it came about: see `Found`. Every step has a result file: typed
again, the command continues where it stopped, also with other methods.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import accumulate
from operator import itemgetter
from pathlib import Path
from random import Random
from statistics import fmean
from typing import Any

from improve_proposals import CHANGES, TASKS
from same_options import same_options
from scripted_model import scripted_model

from mcp_bench.recorder.atomic_file import write_atomic
from mcp_bench.recorder.paths import runs_dir
from mcp_bench.recorder.runs.reader import RunReader
from mcp_bench.trainer.folders import Outcome, once
from mcp_bench.trainer.loop.training import learn_online, make_base, train_model
from mcp_bench.trainer.trial.measuring import served
from mcp_bench.trainer.trial.recipe import trial_recipe
from mcp_bench.trainer.trial.recordings import record
from mcp_bench.trainer.trial.settings import TrialSettings

BENCHMARK = "improve"
LEARNING = ("grpo", "sdpo")
DRIVERS = ("single", "icl", "puct")
TAUGHT_AT = 3
"""Variants of each task that the proposer teaches at: 1, 2, 3. Those that are searched have the number 0."""
ANSWERS = 3
"""Of the scripted proposer to each request."""
MOST_CHANGES, MOST_LINES = 3, 10
"""At once: of a program, or lines of a prompt that come or go."""
SHOWN = 0.3
"""Share of the rows with an earlier conversation, whose answer is repeated."""
POSITIONS = 4096
"""A request of `icl` shows three programs, and a hint another request with its answer."""
LENGTHS = ("data.max_length", "model.architecture.max_position_embeddings")
BLOCK = re.compile(r"^```\n(.*?)^```", re.MULTILINE | re.DOTALL)
GAIN = re.compile(r"^Gain over the baseline: \S+ \[(\S+), \S+\]", re.MULTILINE)


def family(task: str) -> str:
    return task.partition(".")[0]


def changed(task: str, version: str, rng: Random) -> str:
    """Return a version with some changes at random; never a broken one."""
    changes = CHANGES[family(task)]
    for _ in range(rng.randint(1, MOST_CHANGES if changes.passages else MOST_LINES)):
        version = changes.changed(version, rng)
    return version


def answered(asked: str, rng: Random) -> str:
    """Return an answer of the scripted proposer to a request."""
    task = next(name for name in CHANGES if " ".join(TASKS[name].readme.split()) in " ".join(asked.split()))
    return f"```\n{changed(task, BLOCK.findall(asked)[-1], rng)}```"


@dataclass(frozen=True)
class Found:
    """What a method found at a task.

    `held_out` is the partial credit of the attempt whose version was best while searching: what a user would
    take. `curve` has the best gain so far after quarters of the runs, at the worse end of its interval, as a
    log-ratio or in the metric's unit; it is empty without a run. The others are for the first and the last
    quarter: the mean partial credit of the attempts, the share of proposals with a program that was not seen
    before, and the entropy of the programs, in nats.
    """

    proposals: int
    runs: int
    held_out: float
    curve: tuple[float, ...]
    partial: tuple[float, float]
    novel: tuple[float, float]
    entropy: tuple[float, float]
    why: str | None = None
    """Why it ended early, if it did."""


class Experiment:
    def __init__(self, out: Path, options: argparse.Namespace) -> None:
        self.out, self.options = out, options
        self.recipe = out / "recipe.yaml"
        if not self.recipe.is_file():
            over = [f"{key}={POSITIONS}" for key in LENGTHS] + options.overrides
            write_atomic(self.recipe, trial_recipe(options.recipe, over))

    def taught(self) -> Path:
        """Return the model that imitates the scripted proposer."""
        rows = self.out / "taught.jsonl"
        over = [f"training.seed={self.options.seed}", f"training.epochs={self.options.epochs}"]

        def base() -> Outcome:
            make_base(self.recipe, [rows], self.out / "base", self.options.seed, self.options.base_steps)
            return {"model": str(self.out / "base")}

        once(self.out / "asked.json", self._ask)
        once(self.out / "rows.json", lambda: self._write_rows(rows))
        named = once(self.out / "base.json", base)["model"]
        trained = once(
            self.out / "start.json",
            lambda: train_model(self.recipe, rows, self.out / "start", [*over, f"model.base={named}"]),
        )
        return Path(trained["model"])

    def _ask(self) -> Outcome:
        """Record the scripted proposer, for the requests that there are."""
        os.environ["OPENAI_API_KEY"] = "dummy-key-0123456789"
        variants = [
            f"{family(task)}.train.{number}"
            for task in self.options.task
            for number in range(1, 1 + TAUGHT_AT)
        ]
        runs = []
        with scripted_model(lambda asked: answered(asked, Random(asked))) as url:
            for driver in DRIVERS:
                words = [
                    "--agent",
                    "search",
                    "--model",
                    "scripted",
                    "--capture-llm",
                    "--benchmark",
                    BENCHMARK,
                    "--base-url",
                    url,
                    "--jobs",
                    "2",
                    *(word for task in variants for word in ("--task", task)),
                    *self._options(driver),
                ]
                runs.append(record(self.out / f"asked-{driver}.begun", words))
        return {"runs": runs}

    def _options(self, driver: str, proposals: int | None = None) -> list[str]:
        named = {"driver": driver, "max_steps": proposals or self.options.proposals}
        return [word for key, value in named.items() for word in ("--agent-option", f"{key}={value}")]

    def _write_rows(self, path: Path) -> Outcome:
        rng, lines = Random(self.options.seed), []
        asked = sorted(
            {
                request
                for run in json.loads((self.out / "asked.json").read_text())["runs"]
                for request in requests(run)
            }
        )
        for request in asked:
            for _ in range(ANSWERS):
                answer = answered(request, rng)
                once_asked = [said("user", request), said("assistant", answer)]
                lines.append({"messages": once_asked * 2 if rng.random() < SHOWN else once_asked})
        rng.shuffle(lines)
        write_atomic(path, "".join(json.dumps(line) + "\n" for line in lines))
        return {"requests": len(asked), "rows": len(lines)}

    def crossed(self, task: str, driver: str, method: str) -> Found | None:
        """Return what a driver finds with the weights that a method learned; None: it learned none."""
        place = self.out / f"{task}-{method}"
        if not (place / "model").is_dir():
            return None
        other = self.out / f"{task}-{driver}-after-{method}"
        outcome = once(
            other.with_suffix(f"{other.suffix}.json"),
            lambda: self._searched(task, driver, place / "model", other),
        )
        return measured(outcome["runs"])

    def found(self, task: str, method: str, start: Path) -> Found:
        place = self.out / f"{task}-{method}"
        work = self._learned if method in LEARNING else self._searched
        outcome = once(place.with_suffix(f"{place.suffix}.json"), lambda: work(task, method, start, place))
        return replace(measured(outcome["runs"]), why=outcome.get("why"))

    def _learned(self, task: str, method: str, start: Path, place: Path) -> Outcome:
        listed = self.out / f"{task}.txt"
        write_atomic(listed, f"{task}\n")
        chosen = {
            "algorithm": method,
            "benchmark": BENCHMARK,
            "agent": "search",
            "steps": self.options.steps,
            "jobs": self.options.jobs,
            "seed": self.options.seed,
        }
        words = [word for key, value in chosen.items() for word in (f"--{key}", str(value))]
        words += ["--", *self._options("best-of-n", 1)]
        learned = learn_online(self.recipe, start, listed, place, words)
        files = sorted(place.glob("steps/*/attempts-*.run.json"), key=lambda path: int(path.parent.name))
        runs = [json.loads(path.read_text())["run"] for path in files]
        return {"runs": runs, "why": learned.get("why")}

    def _searched(self, task: str, method: str, start: Path, place: Path) -> Outcome:
        settings = TrialSettings(
            recipe=str(self.recipe), benchmark=BENCHMARK, dev=[task], jobs=self.options.jobs, engine="torch"
        )
        budget = self.options.steps * self.options.attempts
        more = [
            "--benchmark",
            BENCHMARK,
            "--task",
            task,
            "--jobs",
            str(self.options.jobs),
            "--capture-llm",
            "--repeat",
            str(budget // self.options.proposals),
            *self._options(method),
            "--agent-option",
            "temperature=1",
            "--agent-option",
            "max_tokens=800",
            "--seed",
            str(self.options.seed),
        ]
        with served(start, place.name, self.out / "model.port", settings) as endpoint:
            search = ["search" if word == "chat" else word for word in endpoint]
            return {"runs": [record(self.out / f"{place.name}.begun", [*search, *more])]}


def said(role: str, text: str) -> dict[str, str]:
    return {"role": role, "content": text}


def requests(run: str) -> Iterator[str]:
    """Yield the requests of a run."""
    with RunReader(runs_dir() / run) as reader:
        for episode in reader.episodes():
            for call, _, _ in reader.model_answers(episode.id):
                yield json.loads(reader.model_bodies(call)[0])["messages"][-1]["content"]


def measured(runs: Sequence[str]) -> Found:
    """Return what was found in these runs, in their order."""
    programs: list[str] = []
    gains: list[float] = []
    attempts: list[tuple[float, float]] = []
    for run in runs:
        with RunReader(runs_dir() / run) as reader:
            for episode in reader.episodes():
                if episode.partial is None:
                    continue
                best = -math.inf
                for _, _, answer in reader.model_answers(episode.id):
                    programs.append((BLOCK.findall(text_of(answer)) or [""])[-1])
                for call in reader.calls(episode.id):
                    gain = GAIN.search(call.text or "") if call.tool == "run" else None
                    if gain is not None and not call.is_error:
                        gains.append(float(gain[1]))
                        best = max(best, gains[-1])
                attempts.append((best, episode.partial))
    return summed(programs, gains, attempts)


def summed(programs: Sequence[str], gains: Sequence[float], attempts: Sequence[tuple[float, float]]) -> Found:
    """Return what was found by these proposals, gains of runs and attempts (best gain, partial credit).

    Where several attempts have the best gain, the first one counts: the held-out score chooses none.
    """
    new = [float(text not in programs[:at]) for at, text in enumerate(programs)]
    best_so_far = list(accumulate(gains, max))
    ends = [max(1, round(part * len(gains) / 4)) for part in (1, 2, 3, 4)] if gains else []
    quarter = max(1, len(programs) // 4)
    tries = max(1, len(attempts) // 4)
    return Found(
        proposals=len(programs),
        runs=len(gains),
        held_out=max(attempts, key=itemgetter(0))[1],
        curve=tuple(best_so_far[end - 1] for end in ends),
        partial=(fmean(part for _, part in attempts[:tries]), fmean(part for _, part in attempts[-tries:])),
        novel=(fmean(new[:quarter]), fmean(new[-quarter:])),
        entropy=(entropy(programs[:quarter]), entropy(programs[-quarter:])),
    )


def text_of(answer: dict[str, Any]) -> str:
    return str(answer["choices"][0]["message"]["content"] or "")


def entropy(programs: Sequence[str]) -> float:
    """Return the entropy of what was proposed, in nats."""
    shares = [count / len(programs) for count in Counter(programs).values()]
    return sum(share * -math.log(share) for share in shares)


def table(found: dict[str, dict[str, Found]]) -> str:
    """Return a Markdown table for each task."""
    lines = []
    for task, methods in found.items():
        lines += [
            f"`{task}`:",
            "",
            "| method | proposals | best version, held out | best gain after each quarter "
            "| attempts' partial | new programs | entropy |",
            "|---|---:|---:|---|---|---|---|",
        ]
        for name, one in methods.items():
            curve = ", ".join(f"{gain:.3g}" for gain in one.curve)
            pairs = " | ".join(
                f"{first:.2f} to {last:.2f}" for first, last in (one.partial, one.novel, one.entropy)
            )
            ended = ", ended early" if one.why else ""
            lines.append(f"| {name}{ended} | {one.proposals} | {one.held_out:.2f} | {curve} | {pairs} |")
        lines.append("")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path)
    parser.add_argument("--recipe", default="tiny-cpu-grpo")
    parser.add_argument("--set", dest="overrides", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--task", nargs="+", default=["places.train.0", "intents.train.0"])
    parser.add_argument("--methods", nargs="+", choices=[*LEARNING, *DRIVERS], default=[*LEARNING, *DRIVERS])
    parser.add_argument("--crossed", action="store_true", help="search with the learned weights, too")
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--attempts", type=int, default=16)
    parser.add_argument("--proposals", type=int, default=12)
    parser.add_argument("--epochs", type=float, default=8, help="over the scripted proposer's answers")
    parser.add_argument("--base-steps", type=int, default=None)
    parser.add_argument("--jobs", type=int, default=4)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    out = options.out.absolute()
    out.mkdir(parents=True, exist_ok=True)
    same_options(parser, options, out / "options.json", ("out", "methods", "crossed", "jobs"))
    os.environ.setdefault("MCP_BENCH_HOME", str(out / "home"))
    shape = {"groups": 1, "attempts": options.attempts, "refills": 0, "max_tokens": 800}
    options.overrides = [*(f"rl.{key}={value}" for key, value in shape.items()), *options.overrides]
    experiment = Experiment(out, options)
    start = experiment.taught()
    found: dict[str, dict[str, Found]] = {}
    for task in options.task:
        learned = [one for one in options.methods if one in LEARNING and options.crossed]
        pairs = [(driver, method) for method in learned for driver in DRIVERS[:2]]
        for method, of in [*((one, "") for one in options.methods), *pairs]:
            one = experiment.crossed(task, method, of) if of else experiment.found(task, method, start)
            if one is None:
                continue
            found.setdefault(task, {})[f"{method}, weights of {of}" if of else method] = one
            plain = {one: {name: asdict(cell) for name, cell in row.items()} for one, row in found.items()}
            write_atomic(out / "table.json", json.dumps(plain, indent=1) + "\n")
            write_atomic(out / "table.md", table(found))
    print((out / "table.md").read_text())


if __name__ == "__main__":
    main()
