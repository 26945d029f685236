"""The folder of a training run, with everything needed to resume and to reproduce it.

recipe.yaml        the recipe with its overrides
data.json          training and held-out files and the template with hashes, and the dropped rows
metrics.jsonl      one line per step
evaluations.jsonl  the scores of held-out rows, if there are any
checkpoints/       the last two checkpoints, including optimizer state
model/             the result: weights, tokenizer, template and generation settings
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from hashlib import file_digest
from pathlib import Path
from shlex import quote
from typing import Any

from mcp_bench.recorder.atomic_file import write_atomic
from mcp_bench.servers.errors import WrongUseError
from mcp_bench.trainer.bases import located
from mcp_bench.trainer.data import Prepared
from mcp_bench.trainer.folders import make_folder, refuse_used
from mcp_bench.trainer.recipe import Recipe, load_recipe, recipe_text
from mcp_bench.trainer.step_lines import keep_until, read_lines

SFT = "sft"


class RunFolder:
    """The files of a run."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.recipe = path / "recipe.yaml"
        self.data = path / "data.json"
        self.metrics = path / "metrics.jsonl"
        self.evaluations = path / "evaluations.jsonl"
        self.checkpoints = path / "checkpoints"
        self.model = path / "model"

    def make(
        self,
        recipe: Recipe,
        tokenizer: str,
        sources: Iterable[Path],
        prepared: Prepared,
        method: str = SFT,
        held_out: Iterable[Path] = (),
    ) -> None:
        """Create the folder of a new run.

        Args:
            recipe: the recipe.
            tokenizer: folder or Hub name.
            sources: the training files.
            prepared: their rows.
            method: the command of `mcp-bench train` that trains: sft, dpo or kto.
            held_out: files with held-out rows.

        Raises:
            WrongUseError: the folder is not empty, or cannot be made.
        """
        refuse_used(self.path)
        make_folder(self.path)
        self.recipe.write_text(recipe_text(recipe))
        content = {
            "method": method,
            "tokenizer": located(tokenizer),
            "files": _described(sources),
            "held_out": _described(held_out),
            "chat_template": _described([Path(name)] if (name := recipe.model.chat_template) else []),
            "rows": len(prepared.examples),
            "tokens": prepared.tokens,
            "trained_tokens": prepared.trained_tokens,
            "masked_tokens": prepared.masked_tokens,
            "longest": prepared.longest,
            "too_long": [{"place": place, "tokens": tokens} for place, tokens in prepared.too_long],
            "untrainable": prepared.untrainable,
            "unshown": prepared.unshown,
        }
        write_atomic(self.data, json.dumps(content, indent=1) + "\n")

    def read(self, method: str = SFT) -> tuple[Recipe, str, list[Path], list[Path]]:
        """Return recipe, tokenizer, training files and held-out files of an existing run.

        Raises:
            WrongUseError: the folder has no run or one of another method, or a file is missing or has
                changed.
        """
        if not self.data.is_file():
            raise WrongUseError(f"no training run in {self.path}: data.json is missing")
        _, recipe = load_recipe(str(self.recipe))
        content = json.loads(self.data.read_text())
        if (own := content.get("method", SFT)) != method:
            raise WrongUseError(
                f"{self.path} has a run of `train {own}`: mcp-bench train {own} --resume "
                f"{quote(str(self.path))}"
            )
        held_out = content.get("held_out", [])
        _unchanged(content.get("chat_template", []))
        return recipe, content["tokenizer"], _unchanged(content["files"]), _unchanged(held_out)

    def keep_metrics(self, step: int | None) -> None:
        """Remove the lines after a checkpoint's step, which a resumed run repeats; all, if there is none."""
        for path in (self.metrics, self.evaluations):
            if path.is_file():
                keep_until(path, step)

    def read_metrics(self) -> Iterator[dict[str, Any]]:
        """Yield the line of each step. An incomplete last line is left out."""
        return read_lines(self.metrics)

    def read_evaluations(self) -> Iterator[dict[str, Any]]:
        """Yield each score of the held-out rows; none if the run has no such rows."""
        return read_lines(self.evaluations)


def _described(paths: Iterable[Path]) -> list[dict[str, str]]:
    return [{"path": str(path.absolute()), "sha256": digest(path)} for path in paths]


def _unchanged(files: Iterable[dict[str, str]]) -> list[Path]:
    paths = []
    for file in files:
        path = Path(file["path"])
        if not path.is_file():
            raise WrongUseError(f"cannot resume: {path}, which the run started with, is missing")
        if digest(path) != file["sha256"]:
            raise WrongUseError(f"cannot resume: {path} has changed since the run started")
        paths.append(path)
    return paths


def digest(path: Path) -> str:
    """Return a file's SHA-256.

    Raises:
        WrongUseError: the file cannot be read.
    """
    try:
        with path.open("rb") as file:
            return file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise WrongUseError(f"cannot read {path}: {error.strerror}") from error
