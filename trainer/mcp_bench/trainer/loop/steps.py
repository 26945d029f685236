"""The steps of a turn. Each returns what is stored of it: with that, the next one has its lineage."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mcp_bench.trainer.loop.commands import record, run
from mcp_bench.trainer.loop.folder import LoopFolder, Outcome
from mcp_bench.trainer.loop.scores import flips, scores
from mcp_bench.trainer.loop.settings import LoopSettings
from mcp_bench.trainer.sft.run_folder import RunFolder


class Steps:
    """The steps, with what all of them need."""

    def __init__(self, folder: LoopFolder, settings: LoopSettings) -> None:
        self.folder = folder
        self.settings = settings

    def teach(self, turn: int) -> Outcome:
        """Let the teacher play the training tasks."""
        model = ["--model", self.settings.teacher_model] if self.settings.teacher_model else []
        arguments = ["--agent", self.settings.teacher, *model, *self._tasks(self.settings.train)]
        return {"run": record(self.folder.turn(turn) / "teach.begun", arguments)}

    def attempt(self, turn: int, model: Path) -> Outcome:
        """Let the model try the training tasks some times each, at temperature."""
        more = [
            *("--repeat", str(self.settings.attempts)),
            *("--agent-option", f"temperature={self.settings.temperature}"),
            *("--seed", str(self.settings.seed + turn)),
        ]
        with self._served(turn, "attempt", model) as endpoint:
            arguments = [*endpoint, *self._tasks(self.settings.train), *more]
            recorded = record(self.folder.turn(turn) / "attempt.begun", arguments)
        return {"run": recorded, "model": str(model), "scores": scores(recorded)}

    def curate(self, turn: int, runs: Sequence[str]) -> Outcome:
        """Export what went well of all runs so far: of each task the best attempts, near duplicates once."""
        data = self.folder.turn(turn) / "train.jsonl"
        chosen = [word for name in runs for word in ("--run", name)]
        run(
            [
                *("export", *chosen, "--min-partial", str(self.settings.min_partial)),
                *("--best", str(self.settings.attempts), "--dedupe", "exact", "--reasoning", "drop"),
                *("--out", str(data), "--force"),
            ]
        )
        manifest = json.loads(data.with_name(f"{data.name}.manifest.json").read_text())
        return {"data": str(data), "runs": list(runs), "sha256": manifest["sha256"], "rows": manifest["rows"]}

    def base(self, data: Path) -> Outcome:
        """Make a very small base model, where the recipe has none."""
        out = self.folder.path / "base"
        shutil.rmtree(out, ignore_errors=True)  # of a loop that was stopped here
        steps = ["--steps", str(self.settings.base_steps), "--seed", str(self.settings.seed)]
        run(["train", "tiny-base", "--data", str(data), "--out", str(out), *steps])
        return {"model": str(out)}

    def train(self, turn: int, data: Path, base: Path | None) -> Outcome:
        """Train on the data of the turn, from the base: or go on with that."""
        out = self.folder.turn(turn) / "train"
        if (out / "data.json").is_file():
            run(["train", "sft", "--resume", str(out)])
        else:
            shutil.rmtree(out, ignore_errors=True)
            over = ["--set", f"model.base={base}"] if base else []
            files = ["--data", str(data), "--out", str(out)]
            run(["train", "sft", str(self.folder.recipe), *files, *over])
        model = RunFolder(out).model
        return {"model": str(model), "data": str(data), "base": base and str(base), **_figures(out)}

    def measure(self, turn: int, model: Path) -> Outcome:
        """Let the model work on `dev` and on `test`, greedily, through the same wire as any agent."""
        found: Outcome = {"model": str(model)}
        with self._served(turn, "measure", model) as endpoint:
            for split, tasks in (("dev", self.settings.dev), ("test", self.settings.test)):
                if tasks:
                    marker = self.folder.turn(turn) / f"{split}.begun"
                    found[split] = scores(record(marker, [*endpoint, *self._tasks(tasks)]))
        return found

    @staticmethod
    def compare(before: Outcome, after: Outcome) -> dict[str, Any]:
        """Return what changed on each split between two measurements."""
        return {
            split: flips(before[split]["run"], after[split]["run"])
            for split in ("dev", "test")
            if split in before and split in after
        }

    def _tasks(self, ids: Sequence[str]) -> list[str]:
        named = [word for task in ids for word in ("--task", task)]
        return ["--benchmark", self.settings.benchmark, *named, "--jobs", str(self.settings.jobs)]

    @contextmanager
    def _served(self, turn: int, step: str, model: Path) -> Iterator[list[str]]:
        """Serve a model; yield the arguments of `record` that reach it.

        The port is kept: a recording that goes on after a stop finds its model where it was.
        """
        from mcp_bench.trainer.serving import serve

        port_file = self.folder.turn(turn) / f"{step}.port"
        port = int(port_file.read_text()) if port_file.is_file() else 0
        name = self._name(model)
        with serve(model, engine=self.settings.engine, port=port, model_name=name) as server:
            port_file.write_text(server.base_url.rpartition(":")[2].partition("/")[0])
            most = self.settings.max_tokens
            option = ["--agent-option", f"max_tokens={most}"] if most else []
            yield ["--agent", "chat", "--base-url", server.base_url, "--model", name, *option]
        port_file.unlink()

    def _name(self, model: Path) -> str:
        """Return what a model is called in the recordings: the loop's folder, and the turn that it is of."""
        loop = self.folder.path
        turn = model.relative_to(loop).parts[0] if model.is_relative_to(loop) else "base"
        return re.sub(r"[^A-Za-z0-9._-]+", "-", f"{loop.name}-{turn}").strip("-._")


def _figures(out: Path) -> Outcome:
    """Return what there is to say of a training run in a line."""
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    data = json.loads((out / "data.json").read_text())
    return {
        "steps": len(lines),
        "first_loss": lines[0]["loss"],
        "last_loss": lines[-1]["loss"],
        "tokens": sum(line["tokens"] for line in lines),
        "rows": data["rows"],
        "too_long": len(data["too_long"]),
    }
