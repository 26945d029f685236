"""`mcp-bench loop`: recordings become a model, which makes recordings."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from mcp_bench.trainer.loop.folder import LoopFolder
    from mcp_bench.trainer.loop.settings import LoopSettings

EPILOG = """\b
Examples:
  mcp-bench loop --recipe tiny-cpu --turns 1 --train 200 --dev 50 --test 50
  mcp-bench loop --recipe my.yaml --turns 3 --train ids.txt --dev dev-ids.txt --out loop
  mcp-bench loop --recipe qwen3.5-9b-lora-1gpu --teacher codex --turns 3 --train 500 --dev 100
  mcp-bench loop --resume loop
"""


@click.command(epilog=EPILOG)
@click.option("--recipe", metavar="R", help="Recipe to train by: see `mcp-bench train recipes`.")
@click.option(
    "--set",
    "overrides",
    multiple=True,
    metavar="KEY=VALUE",
    help="Put a value over the recipe's (repeatable).",
)
@click.option("--turns", type=click.IntRange(min=1), default=1, show_default=True, help="Turns at most.")
@click.option("--benchmark", default="saasworld", show_default=True, metavar="B", help="What is worked on.")
@click.option(
    "--train", default="100", show_default=True, metavar="N|FILE",
    help="Tasks to learn from: the first N of the split, or the ids in a file.",
)  # fmt: skip
@click.option(
    "--dev", default="50", show_default=True, metavar="N|FILE",
    help="Tasks that decide whether a model is promoted.",
)  # fmt: skip
@click.option(
    "--test", default="50", show_default=True, metavar="N|FILE",
    help="Tasks whose scores are reported and never used; 0 for none.",
)  # fmt: skip
@click.option("--teacher", default="oracle", show_default=True, metavar="A", help="Agent of the first turn.")
@click.option("--teacher-model", metavar="M", help="The model the teacher is to use.")
@click.option(
    "--min-partial", type=click.FloatRange(0, 1), default=0.5, show_default=True,
    help="Least share of a task's assertions that must hold, for an attempt to be learned from.",
)  # fmt: skip
@click.option(
    "--attempts", type=click.IntRange(min=1), default=2, show_default=True,
    help="Tries of the model at each training task, from the second turn on; as many are kept.",
)  # fmt: skip
@click.option(
    "--temperature", type=click.FloatRange(0, min_open=True), default=0.8, show_default=True,
    help="Sampling temperature of these tries; what is measured is greedy unless the model says otherwise.",
)  # fmt: skip
@click.option(
    "--max-tokens",
    type=click.IntRange(min=1),
    metavar="N",
    help="Tokens of each of its answers at most.",
)
@click.option(
    "--patience", type=click.IntRange(min=1), default=2, show_default=True,
    help="End after so many turns in a row that were not promoted.",
)  # fmt: skip
@click.option(
    "--base-steps", type=click.IntRange(min=1), default=900, show_default=True,
    help="Training steps of the base model that is made where the recipe has none.",
)  # fmt: skip
@click.option("--jobs", type=click.IntRange(min=1), default=2, show_default=True, help="Episodes at once.")
@click.option(
    "--engine", type=click.Choice(["auto", "vllm", "transformers"]), default="auto", show_default=True,
    help="What serves the models.",
)  # fmt: skip
@click.option("--seed", type=int, default=0, show_default=True, help="Of the base model and the attempts.")
@click.option(
    "--out", metavar="FOLDER", type=click.Path(path_type=Path, file_okay=False),
    help="Folder of the loop. Default: a new one in $MCP_BENCH_HOME/loops.",
)  # fmt: skip
@click.option(
    "--resume", metavar="FOLDER", type=click.Path(path_type=Path, file_okay=False),
    help="Go on with a loop that was stopped; its own settings hold.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print the whole history as one JSON document.")
def loop(recipe: str | None, overrides: tuple[str, ...], out: Path | None, resume: Path | None, as_json: bool,
         **choices: Any) -> None:  # fmt: skip
    """Record, curate, train, serve, measure, and again, until nothing gets better.

    The teacher plays the training tasks; what went well is exported, a model is trained on it and served,
    and works on `dev` and `test` as just another agent. From the second turn on its own best attempts join.
    A model takes the place of the one before if it fixes at least as many tasks of `dev` as it breaks, and
    scores higher on them.

    Ctrl-C stops it; --resume goes on with the step that was not done.
    """
    from mcp_bench.trainer.loop.folder import LoopFolder
    from mcp_bench.trainer.loop.turns import run_loop

    if resume is not None:
        folder = LoopFolder(resume)
        settings = folder.read()
    else:
        folder, settings = _begin(recipe, overrides, out, choices)
    click.echo(f"Loop: {folder.path}", err=True)
    try:
        history = run_loop(folder, settings, lambda line: click.echo(line, err=True))
    except BaseException:
        click.echo(f"Go on with: mcp-bench loop --resume {folder.path}", err=True)
        raise
    if as_json:
        click.echo(json.dumps(history))
    click.echo(f"The best model: {history['best']['model']}", err=True)


def _begin(
    recipe: str | None, overrides: tuple[str, ...], out: Path | None, choices: dict[str, Any]
) -> tuple[LoopFolder, LoopSettings]:
    from datetime import UTC, datetime

    import yaml

    from mcp_bench.recorder.paths import home
    from mcp_bench.servers.errors import WrongUseError
    from mcp_bench.trainer.loop.folder import LoopFolder
    from mcp_bench.trainer.loop.settings import LoopSettings, task_ids
    from mcp_bench.trainer.recipe import load_recipe
    from mcp_bench.trainer.refusals import refusals

    if recipe is None:
        raise WrongUseError("name a --recipe (see `mcp-bench train recipes`), or a loop to --resume")
    _, loaded = load_recipe(recipe, overrides)
    if reasons := refusals(loaded):
        raise WrongUseError("the recipe cannot work:" + "".join(f"\n- {reason}" for reason in reasons))
    path = (out or home() / "loops" / f"{datetime.now(UTC):%Y%m%d-%H%M%S}").absolute()
    if path.is_dir() and any(path.iterdir()):
        raise WrongUseError(f"{path} is not empty; go on with a loop by --resume, or name another folder")
    asked = {
        split: task_ids(choices["benchmark"], split, choices.pop(split)) for split in ("train", "dev", "test")
    }
    folder = LoopFolder(path)
    settings = LoopSettings.model_validate({"recipe": recipe, **asked, **choices})
    path.mkdir(parents=True, exist_ok=True)
    folder.recipe.write_text(
        yaml.safe_dump(loaded.model_dump(mode="json", exclude_unset=True), sort_keys=False)
    )
    folder.make(settings)
    return folder, settings
