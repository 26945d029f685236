"""Inspect a trained model: weights, predictions on held-out conversations, and accuracy on dev tasks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mcp_bench.servers.errors import WrongUseError
from mcp_bench.trainer.bases import located
from mcp_bench.trainer.data import Example, prepare
from mcp_bench.trainer.folders import Outcome, make_folder, once, read_step
from mcp_bench.trainer.inspection.predictions import Predictions, compare
from mcp_bench.trainer.inspection.weights import Change, changes
from mcp_bench.trainer.rows import Row, read_rows
from mcp_bench.trainer.serving.adapter import merge_adapter
from mcp_bench.trainer.serving.checkpoint import is_adapter, read_checkpoint
from mcp_bench.trainer.sft.run_folder import digest
from mcp_bench.trainer.trial.measuring import served, tasks
from mcp_bench.trainer.trial.recordings import record
from mcp_bench.trainer.trial.scores import flips, scores_by_group
from mcp_bench.trainer.trial.settings import TrialSettings

Report = Callable[[str], None]
QUESTION = "inspection.json"
"""File that says what was measured."""


@dataclass(frozen=True)
class Inspection:
    """What was found. Parts that were not asked for are empty."""

    model: str
    base: str
    changes: list[Change]
    predictions: list[Predictions] = field(default_factory=list)
    """By file of conversations."""
    accuracy: Outcome = field(default_factory=dict)
    """Scores of `base` and `model` on dev tasks, by group and family, and `flips`."""


def whole(name: str) -> Path:
    """Return the folder with all weights of a model: an adapter is merged, a fetched base is found.

    Raises:
        WrongUseError: it is not there, or not complete.
    """
    folder = Path(located(name))
    if not folder.is_dir():
        raise WrongUseError(f"no folder {name}, and no fetched base of that name: see `mcp-bench train base`")
    found = merge_adapter(folder) if is_adapter(folder) else folder
    read_checkpoint(found)
    return found


def inspect(
    model: str,
    base: str,
    *,
    data: Sequence[Path] = (),
    rows: int = 50,
    max_length: int = 4096,
    device: str = "auto",
    dev: TrialSettings | None = None,
    out: Path | None = None,
    trained: Sequence[str] = (),
    report: Report = lambda line: None,
) -> Inspection:
    """Compare a model with its base.

    Args:
        model: a folder, or the name of a fetched base.
        base: the same, before training.
        data: files with rows (`mcp-bench export --format trl`); each is a group of its own. They should be
            conversations that the model was not trained on.
        rows: the most rows of each file, evenly spread.
        max_length: longer rows are left out, in tokens.
        device: cpu, cuda, or auto.
        dev: tasks to measure both on; None: none.
        out: folder for these measurements, which a second call continues. Needed with `dev`.
        trained: ids of training tasks; scores are divided into their families and others.
        report: gets a line for each step.

    Raises:
        WrongUseError: a model or a file cannot be used, or the two have different sizes.
    """
    ours, before = whole(model), whole(base)
    asked: Outcome = {}
    if dev is not None:
        if out is None:
            raise WrongUseError("measuring on tasks needs a folder for the recordings")
        asked = _question(before, ours, dev)
        _refuse_other(out / QUESTION, asked)  # before the rest, which can take hours
    report(f"Comparing the weights of {model} with those of {base}")
    changed = list(changes(before, ours))
    stems = [path.stem for path in data]
    read = {str(path) if stems.count(path.stem) > 1 else path.stem: read_rows([path]) for path in data}
    found = _predictions(before, ours, read, rows, max_length, device, report) if read else []
    accuracy: Outcome = {}
    if dev is not None and out is not None:
        make_folder(out)
        once(out / QUESTION, lambda: asked)
        accuracy = _accuracy(before, ours, dev, out, trained, report)
    return Inspection(str(ours), str(before), changed, found, accuracy)


def spread(rows: Sequence[Row], most: int) -> list[Row]:
    """Return at most so many rows, evenly spread."""
    if len(rows) <= most:
        return list(rows)
    return [rows[number * len(rows) // most] for number in range(most)]


def _predictions(
    base: Path,
    model: Path,
    read: Mapping[str, Sequence[Row]],
    most: int,
    max_length: int,
    device: str,
    report: Report,
) -> list[Predictions]:
    import torch
    from transformers import AutoModelForCausalLM

    from mcp_bench.trainer.engine.load import find_device
    from mcp_bench.trainer.recipe import ModelSource
    from mcp_bench.trainer.templates import choose_templates
    from mcp_bench.trainer.tokenizer import load_tokenizer

    tokenizer = load_tokenizer(str(model))
    templates = choose_templates(tokenizer, ModelSource(base=str(model)))
    groups: dict[str, list[Example]] = {
        name: prepare(spread(rows, most), tokenizer, templates, max_length, limit="--max-length").examples
        for name, rows in read.items()
    }
    where = find_device(device)
    # on a CPU one type for both: a base in 16 bits would differ from a result in 32 by rounding alone
    dtype = torch.float32 if where.type == "cpu" else "auto"
    pair: list[Any] = []
    for folder in (base, model):
        loaded: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype)
        pair.append(loaded.to(where).eval())
    found = []
    for name, examples in groups.items():
        done = 0

        def progress() -> None:
            nonlocal done
            done += 1
            if done % 10 == 0 or done == len(examples):  # noqa: B023 - called before the next group
                report(f"{name}: {done} of {len(examples)} conversations")  # noqa: B023

        found.append(compare(name, pair[0], pair[1], examples, progress))
    return found


def _accuracy(
    base: Path, model: Path, settings: TrialSettings, out: Path, trained: Sequence[str], report: Report
) -> Outcome:
    """Record both models on the same tasks; each is a step with a result file."""

    def measured(name: str, folder: Path) -> Outcome:
        def measure() -> Outcome:
            report(f"Measuring the {name} on {len(settings.dev)} tasks")
            with served(folder, f"inspect-{name}", out / f"{name}.port", settings) as endpoint:
                named = tasks(settings.benchmark, settings.dev, settings.jobs)
                return {"run": record(out / f"{name}.begun", [*endpoint, *named])}

        return once(out / f"{name}.json", measure)

    runs = {name: measured(name, folder)["run"] for name, folder in (("base", base), ("model", model))}
    return {
        **{name: scores_by_group(run, trained) for name, run in runs.items()},
        "flips": flips(runs["base"], runs["model"]),
    }


def _question(base: Path, model: Path, settings: TrialSettings) -> Outcome:
    """Return what is measured.

    Weights are known by their content: a model that was trained again has the same folder.
    """
    return {
        "base": _weights(base),
        "model": _weights(model),
        "benchmark": settings.benchmark,
        "dev": list(settings.dev),
        "max_tokens": settings.max_tokens,
        "engine": settings.engine,
    }


def _refuse_other(path: Path, asked: Outcome) -> None:
    """Check that the folder of an earlier measurement was asked the same.

    Raises:
        WrongUseError: something differs.
    """
    stored = read_step(path)
    differ = [name for name, value in asked.items() if stored is not None and stored.get(name) != value]
    if differ:
        raise WrongUseError(
            f"{path.parent} has scores of another measurement, with another {' and another '.join(differ)}: "
            "choose another folder with --out"
        )


def _weights(folder: Path) -> dict[str, str]:
    """Return the hash of each file with weights, by its name."""
    return {path.name: digest(path) for path in sorted(folder.glob("*.safetensors"))}
