"""What an inspection shows: a table in the terminal, and a page with charts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from statistics import fmean
from typing import Any

from mcp_bench.recorder.counted import counted
from mcp_bench.recorder.html_report.compared import signed
from mcp_bench.recorder.html_report.recordings import score, score_chart
from mcp_bench.recorder.html_report.sections import (
    Cell,
    Chart,
    Fact,
    Line,
    LineChart,
    Role,
    Score,
    Section,
    Table,
)
from mcp_bench.trainer.inspection.inspect import Inspection
from mcp_bench.trainer.inspection.predictions import Layer, Predictions
from mcp_bench.trainer.inspection.weights import Change

WEIGHTS = [
    "tensor",
    "shape",
    "relative change",
    "numbers changed",
    "effective rank",
    "stable rank",
    "directions of 90 %",
    "largest singular values",
]
GROUPS: tuple[Role, ...] = ("partial", "strict", "fixed", "broken")
"""A colour for each group of conversations, over and over."""


def sections(found: Inspection) -> list[Section]:
    """Return the page's content."""
    made = [_weights(found.changes)]
    if found.predictions:
        made += [_predictions(found.predictions), _layers(found.predictions)]
    if found.accuracy:
        made.append(_accuracy(found.accuracy))
    return made


def summary(found: Inspection) -> list[str]:
    """Return lines for the terminal."""
    lines = [_change_words(found.changes)]
    for kind, changes in _kinds(found.changes).items():
        ranks = [one.effective_rank for one in changes if one.effective_rank is not None]
        rank = f", effective rank {fmean(ranks):.1f} of {min(changes[0].shape)}" if ranks else ""
        size = fmean(one.relative for one in changes)
        lines.append(f"  {kind:<28} {counted(len(changes), 'tensor'):>12}, relative change {size:.2%}{rank}")
    lines += [_words(one) for one in found.predictions]
    if found.accuracy:
        for name in ("base", "model"):
            row = found.accuracy[name]
            lines.append(
                f"{name}: partial {_number(row['partial'])}, strict {_number(row['strict'])} on "
                f"{counted(row['tasks'], 'task')}"
            )
    return lines


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _change_words(changes: Sequence[Change]) -> str:
    touched = [one for one in changes if one.size]
    return f"{len(touched)} of {counted(len(changes), 'tensor')} changed"


def _words(one: Predictions) -> str:
    interval = one.loss_change_ci
    span = f" [{interval[0]:+.3f}, {interval[1]:+.3f}]" if interval else ""
    return (
        f"{one.group}: {counted(one.rows, 'conversation')}, {one.tokens:,} tokens of the assistant. "
        f"Perplexity {one.perplexity[0]:.3f} -> {one.perplexity[1]:.3f} (loss {one.loss_change:+.3f}{span}), "
        f"KL {one.kl:.4f}, {one.changed:.1%} of predictions changed, "
        f"entropy {one.entropy[0]:.3f} -> {one.entropy[1]:.3f}"
    )


def _kinds(changes: Iterable[Change]) -> dict[str, list[Change]]:
    """Return the changes by their part, such as `self_attn.q_proj`, without the layer's number."""
    found: dict[str, list[Change]] = defaultdict(list)
    for one in changes:
        found[_kind(one.name)].append(one)
    return dict(found)


def _kind(name: str) -> str:
    parts = name.removesuffix(".weight").split(".")
    numbers = [place for place, part in enumerate(parts) if part.isdecimal()]
    return ".".join(parts[numbers[-1] + 1 :] if numbers else parts[-1:])


def _layer(name: str) -> int | None:
    return next((int(part) for part in name.split(".") if part.isdecimal()), None)


def _weights(changes: Sequence[Change]) -> Section:
    touched = [one for one in changes if one.size]
    ranks = [one.effective_rank for one in touched if one.effective_rank is not None]
    facts = [Fact("tensors changed", f"{len(touched)} of {len(changes)}")]
    if touched:
        most = max(touched, key=lambda one: one.relative)
        facts.append(Fact("largest relative change", f"{most.relative:.2%}", most.name))
    if ranks:
        facts.append(Fact("mean effective rank", f"{fmean(ranks):.1f}", "of the changes of matrices"))
    rows: list[list[Cell]] = [_row(one) for one in changes]
    note = "Effective rank: exp of the entropy of the singular values over their sum. Stable rank: squared "
    note += "Frobenius norm over the square of the largest singular value."
    drawn = {
        kind: ones
        for kind, ones in _kinds(changes).items()
        if len(ones) > 1 and len(ones[0].shape) > 1 and any(one.size for one in ones)
    }
    charts: list[Chart] = []
    if drawn:
        charts = [
            _by_layer("relative change", "Relative change of matrices", drawn, lambda one: one.relative),
            _by_layer(
                "effective rank", "Effective rank of the change", drawn, lambda one: one.effective_rank
            ),
        ]
    return Section(
        "Weights",
        [_change_words(changes) + "."],
        facts,
        [Table("Changes of tensors", WEIGHTS, rows, note)],
        charts,
    )


def _row(one: Change) -> list[Cell]:
    values = ", ".join(f"{value:.3g}" for value in one.singular)
    return [
        one.name,
        " x ".join(map(str, one.shape)),
        f"{one.relative:.3%}",
        f"{one.entries:.1%}",
        "-" if one.effective_rank is None else f"{one.effective_rank:.1f}",
        "-" if one.stable_rank is None else f"{one.stable_rank:.2f}",
        one.directions,
        values or "-",
    ]


def _by_layer(
    name: str, title: str, drawn: dict[str, list[Change]], value: Callable[[Change], float | None]
) -> LineChart:
    lines = []
    for number, (kind, ones) in enumerate(drawn.items()):
        points = [(layer, value(one)) for one in ones if (layer := _layer(one.name)) is not None]
        points = [(layer, found) for layer, found in points if found is not None]
        lines.append(
            Line(
                kind,
                GROUPS[number % len(GROUPS)],
                [layer for layer, _ in points],
                [Score(found) for _, found in points],
                strength=1 - 0.6 * (number // len(GROUPS)) / 2,
            )
        )
    return LineChart(
        name=name.replace(" ", "-"),
        title=title,
        says="By layer, a line for each kind of matrix.",
        table=Table(title, ["part", "layer", name], _points(lines)),
        x_label="layer",
        share=False,
        lines=lines,
    )


def _predictions(found: Sequence[Predictions]) -> Section:
    columns = [
        "conversations",
        "rows",
        "tokens",
        "perplexity, base",
        "perplexity, model",
        "change of the loss",
        "KL (nats)",
        "predictions changed",
        "entropy, base",
        "entropy, model",
    ]
    rows: list[list[Cell]] = [
        [
            one.group,
            one.rows,
            one.tokens,
            f"{one.perplexity[0]:.3f}",
            f"{one.perplexity[1]:.3f}",
            Score(one.loss_change, one.loss_change_ci, signed=True),
            f"{one.kl:.4f}",
            f"{one.changed:.1%}",
            f"{one.entropy[0]:.3f}",
            f"{one.entropy[1]:.3f}",
        ]
        for one in found
    ]
    note = (
        "On the tokens of the assistant, as they were recorded. A loss that rises on conversations that the "
    )
    note += "model was not trained on is forgetting. Intervals: 95 %, by bootstrap over conversations."
    facts = [
        Fact(f"predictions changed, {one.group}", f"{one.changed:.1%}", f"KL {one.kl:.4f} nats")
        for one in found[:4]
    ]
    return Section(
        "Predictions", (), facts, [Table("Base and model on the same conversations", columns, rows, note)]
    )


def _layers(found: Sequence[Predictions]) -> Section:
    columns = ["conversations", "layer", "cosine", "logit-lens KL", "logit-lens predictions changed"]
    rows: list[list[Cell]] = [
        [
            one.group,
            layer.number,
            _digits(layer.cosine, 5),
            _digits(layer.lens_kl, 4),
            _share(layer.lens_changed),
        ]
        for one in found
        for layer in one.layers
    ]
    charts: list[Chart] = [
        _layer_chart(
            "cosine",
            "Cosine of activations",
            "Base and model at the same token; 1: unchanged.",
            found,
            lambda layer: layer.cosine,
        )
    ]
    words = [
        "Layer 0 is the embedding. The logit lens reads each layer's activations as a prediction of the next "
        "token."
    ]
    if any(layer.lens_changed is not None for one in found for layer in one.layers):
        charts.append(
            _layer_chart(
                "lens",
                "Predictions changed, by layer",
                "By the logit lens: share of tokens whose most probable value differs.",
                found,
                lambda layer: layer.lens_changed,
            )
        )
    else:
        words.append("There is no logit lens for this type of model: its last norm was not found.")
    return Section("Layers", words, (), [Table("By layer", columns, rows)], charts)


def _digits(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.1%}"


def _layer_chart(
    name: str, title: str, says: str, found: Sequence[Predictions], value: Callable[[Layer], float | None]
) -> LineChart:
    lines = [
        Line(
            one.group,
            GROUPS[number % len(GROUPS)],
            [layer.number for layer in one.layers],
            [Score(value(layer)) for layer in one.layers],
        )
        for number, one in enumerate(found)
    ]
    return LineChart(
        name=name,
        title=title,
        says=says,
        x_label="layer",
        lines=lines,
        table=Table(title, ["conversations", "layer", name], _points(lines)),
    )


def _accuracy(found: dict[str, Any]) -> Section:
    parts = [(name, found[name]) for name in ("base", "model")]
    flips = found["flips"]
    rows: list[list[Cell]] = []
    for key in ("groups", "families"):
        for label in sorted({*found["base"][key], *found["model"][key]}):
            both = [found[name][key].get(label) for name in ("base", "model")]
            tasks = max(one["tasks"] for one in both if one)
            rows.append(
                [
                    label,
                    tasks,
                    *(score(one, "partial") if one else None for one in both),
                    *(score(one, "strict") if one else None for one in both),
                ]
            )
    columns = ["tasks of", "number", "partial, base", "partial, model", "strict, base", "strict, model"]
    words = [
        f"{counted(len(flips['fail_to_pass']), 'task')} newly solved, "
        f"{counted(len(flips['pass_to_fail']), 'task')} newly failed."
    ]
    facts = [
        Fact("change of partial", _signed(signed(flips["partial"])), counted(flips["common_tasks"], "task"))
    ]
    return Section(
        "Accuracy on dev tasks",
        words,
        facts,
        [Table("By group and family", columns, rows)],
        [score_chart("accuracy", "Base and model on dev tasks", "model", parts)],
    )


def _points(lines: Iterable[Line]) -> list[list[Cell]]:
    return [[line.name, x, one.value] for line in lines for x, one in zip(line.x, line.scores, strict=True)]


def _signed(one: Score) -> str:
    if one.value is None:
        return "-"
    return f"{one.value:+.3f}" + (
        f" [{one.interval[0]:+.3f}, {one.interval[1]:+.3f}]" if one.interval else ""
    )
