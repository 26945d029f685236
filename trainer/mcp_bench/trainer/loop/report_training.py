"""The section about the training of a loop's models: losses, training data and cost."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, isfinite
from statistics import fmean
from typing import Any

from mcp_bench.recorder.html_report.sections import Cell, Chart, Line, LineChart, Score, Section, Table
from mcp_bench.trainer.loop.settings import PAIRS
from mcp_bench.trainer.loop.stored_turn import Turn
from mcp_bench.trainer.methods import Algorithm
from mcp_bench.trainer.sft.run_folder import RunFolder

POINTS = 100
"""Maximum points of a curve. With more steps, each point is the mean of several."""
FAINTEST = 0.35
GIB = 2**30


def training(turns: Sequence[Turn], algorithm: Algorithm) -> list[Section]:
    """Return the section about training so far, or nothing before the first step."""
    steps = {turn.number: _steps(turn) for turn in turns}
    begun = [turn for turn in turns if steps[turn.number]]
    if not begun:
        return []
    tables = [Table("Training data and cost by model", *_figures(begun, steps))]
    tried = [turn for turn in turns if turn.attempt]
    if tried:
        tables.append(Table("The models' own sampled attempts at training tasks", *_attempts(tried)))
    return [Section("Training", [_described(algorithm)], tables=tables, charts=[_losses(begun, steps)])]


def _described(algorithm: Algorithm) -> str:
    """Return text that says what the turns train from, and on what."""
    if algorithm == "sft":
        return "Every turn trains from the base, on all successful attempts so far."
    first = "The first turn trains from the base, on the teacher's successful attempts."
    if algorithm in PAIRS:
        return f"{first} Later turns train from the best model so far, on pairs of its attempts in that turn."
    return (
        f"{first} Later turns learn online, from the best model so far: mcp-bench report --html FILE --loop "
        "LOOP/turn-N/learn shows one."
    )


def _steps(turn: Turn) -> list[dict[str, Any]]:
    return list(RunFolder(turn.folder / "train").read_metrics())


def _losses(turns: Sequence[Turn], steps: dict[int, list[dict[str, Any]]]) -> Chart:
    window = max(ceil(len(steps[turn.number]) / POINTS) for turn in turns)
    curves = {turn.number: _curve(steps[turn.number], window) for turn in turns}
    first, last = turns[0].number, turns[-1].number
    means = f"Each point is the mean of {window} steps. " if window > 1 else "Each point is a step. "
    later = "Later turns are stronger in colour." if last > first else ""
    return LineChart(
        name="loss",
        title="Training loss",
        says=f"{means}The loss covers the assistant's tokens. {later}".strip(),
        table=Table(
            "Training loss",
            ["model", "step", "loss"],
            [[turn.name, step, loss] for turn in turns for step, loss in curves[turn.number]],
        ),
        x_label="step",
        share=False,
        lines=[
            Line(
                turn.name,
                "loss",
                [step for step, _ in curves[turn.number]],
                [Score(loss) for _, loss in curves[turn.number]],
                strength=1 - (1 - FAINTEST) * (last - turn.number) / max(1, last - first),
            )
            for turn in turns
        ],
    )


def _curve(steps: Sequence[dict[str, Any]], window: int) -> list[tuple[int, float]]:
    """Return `(last step, mean loss)` for each window of steps. Losses that are not finite are left out."""
    found = []
    for start in range(0, len(steps), window):
        group = steps[start : start + window]
        losses = [line["loss"] for line in group if isfinite(line["loss"])]
        if losses:
            found.append((int(group[-1]["step"]), fmean(losses)))
    return found


def _figures(
    turns: Sequence[Turn], steps: dict[int, list[dict[str, Any]]]
) -> tuple[Sequence[str], list[list[Cell]]]:
    columns = ("model", "rows", "rows too long", "steps", "tokens", "first loss", "last loss", "peak GiB", "")
    rows: list[list[Cell]] = []
    for turn in turns:
        lines, done = steps[turn.number], turn.train or {}
        rows.append(
            [
                turn.name,
                done.get("rows", (turn.curate or {}).get("rows")),
                done.get("too_long"),
                len(lines),
                sum(line["tokens"] for line in lines),
                float(lines[0]["loss"]),
                float(lines[-1]["loss"]),
                max(line["memory_bytes"] for line in lines) / GIB,
                "" if done else f"running, until step {lines[-1]['steps']:,}",
            ]
        )
    return columns, rows


def _attempts(turns: Sequence[Turn]) -> tuple[Sequence[str], list[list[Cell]]]:
    rows: list[list[Cell]] = []
    for turn in turns:
        scores = (turn.attempt or {})["scores"]
        counts = [scores[name] for name in ("episodes", "invalid", "tasks", "partial", "strict")]
        rows.append([f"before {turn.name}", *counts])
    return ("attempts", "episodes", "invalid", "tasks", "partial", "strict"), rows
