"""Does the grade of training data matter for the model of `make demo-model`? Run by `make ablate-model`.

    python benchmarks/learning/ablate_model.py [--demo demo-model-out] [--tasks 12] [--attempts 3]
        [--temperature 1.0]

The demo's trained model tries new training tasks several times each, at a temperature at which it often
fails. `mcp-bench ablate` then trains the demo's base on cohorts of the best attempts, the worst, and any. The
models are measured on dev tasks from number 500, which the demo does not report. Typed again, the command
continues where it stopped.
"""

import argparse
import os
from collections.abc import Iterator
from pathlib import Path

from same_options import same_options

from mcp_bench.servers.errors import WrongUseError
from mcp_bench.trainer.folders import Outcome, once
from mcp_bench.trainer.loop.folder import LoopFolder
from mcp_bench.trainer.trial.commands import run
from mcp_bench.trainer.trial.measuring import served, tasks
from mcp_bench.trainer.trial.recordings import record
from mcp_bench.trainer.trial.scores import scores

FIRST_ATTEMPTED, FIRST_MEASURED = 200, 500
"""Numbers of the first task of each family; the demo trains on those from 0."""


def numbered(families: list[str], split: str, first: int, count: int) -> Iterator[str]:
    for number in range(first, first + count):
        for family in families:
            yield f"{family}.{split}.{number}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--demo", type=Path, default=Path("demo-model-out"), help="folder of the demo")
    parser.add_argument("--home", type=Path, help="default: home in the demo's folder")
    parser.add_argument("--tasks", type=int, default=12, help="attempted tasks of each family")
    parser.add_argument("--attempts", type=int, default=3, help="attempts at each task")
    parser.add_argument("--temperature", type=float, default=1.0)
    parser.add_argument("--dev", type=int, default=4, help="measured tasks of each family")
    parser.add_argument("--size", type=int, default=100, help="rows of a cohort")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--set", dest="overrides", action="append", default=[], metavar="KEY=VALUE")
    options = parser.parse_args()
    os.environ["MCP_BENCH_HOME"] = str((options.home or options.demo / "home").absolute())
    loop = LoopFolder((options.demo / "loop").absolute())
    try:
        history, settings = loop.history(), loop.read()
    except WrongUseError as error:
        parser.error(f"--demo: run `make demo-model` first: {error}")
    families = sorted({task.rsplit(".", 2)[0] for task in settings.train})
    families = [family for family in families if family.endswith(".1")]
    same_options(parser, options, options.demo / "ablation-options.json", ("demo", "home"))
    model = Path(history["turns"][0]["train"]["model"])
    out = options.demo.absolute()

    def attempt() -> Outcome:
        ids = list(numbered(families, "train", FIRST_ATTEMPTED, options.tasks))
        with served(model, "attempts", out / "attempts.port", settings) as endpoint:
            named = tasks(settings.benchmark, ids, settings.jobs)
            more = ["--repeat", str(options.attempts)]
            more += ["--agent-option", f"temperature={options.temperature}"]
            recorded = record(out / "attempts.begun", [*endpoint, *named, *more])
        return {"run": recorded, "scores": scores(recorded)}

    attempts = once(out / "attempts.json", attempt)["run"]
    folder = out / "ablation"
    if (folder / "ablation.json").is_file():
        run(["ablate", "--resume", str(folder)])
        return
    dev = out / "ablation-dev.txt"
    dev.write_text("\n".join(numbered(families, "dev", FIRST_MEASURED, options.dev)))
    overrides = [f"model.base={history['base']['model']}", *options.overrides]
    over = [word for value in overrides for word in ("--set", value)]
    most = ["--max-tokens", str(settings.max_tokens)] if settings.max_tokens else []
    most += ["--constrain-calls"] if settings.constrain_calls else []  # as the demo's models are measured
    run(
        [
            *("ablate", "--recipe", str(loop.recipe), "--run", attempts, "--size", str(options.size)),
            *("--seeds", str(options.seeds), "--dev", str(dev), "--jobs", str(settings.jobs)),
            *("--engine", settings.engine, *most, *over, "--out", str(folder)),
        ]
    )


if __name__ == "__main__":
    main()
