"""Sections about a loop for `mcp-bench report --html FILE --loop FOLDER`.

Everything is read from the loop's folder. The loop can still be running; unfinished steps are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from mcp_bench.recorder.counted import counted
from mcp_bench.recorder.html_report.compared import signed
from mcp_bench.recorder.html_report.recordings import score
from mcp_bench.recorder.html_report.sections import (
    DIRECTIONS,
    INTERVALS,
    MOST_ROWS,
    Cell,
    Chart,
    DotChart,
    Dots,
    Fact,
    FlipChart,
    Line,
    LineChart,
    Score,
    Section,
    Table,
)
from mcp_bench.servers.errors import WrongUseError
from mcp_bench.trainer.folders import Outcome
from mcp_bench.trainer.loop.folder import LoopFolder
from mcp_bench.trainer.loop.report_training import training
from mcp_bench.trainer.loop.stored_turn import Turn, stored_turns
from mcp_bench.trainer.trial.scores import MEASURED

KINDS: tuple[Literal["partial", "strict"], ...] = ("partial", "strict")
PARTS = (("groups", "group of tasks"), ("families", "family of tasks"))
"""Keys of partial scores within a split, and the noun for each."""


def sections(folder: Path) -> list[Section]:
    """Return the sections about a loop.

    Raises:
        WrongUseError: the folder has no loop, or its files cannot be read.
    """
    loop = LoopFolder(folder)
    try:
        settings = loop.read()
        turns = stored_turns(loop, settings.turns)
        measured = [turn for turn in turns if turn.measure]
        return [
            _summary(settings.turns, measured, [turn for turn in turns if turn.gate and not turn.measure]),
            *_changes([turn for turn in measured if turn.flips], measured),
            *_parts(measured),
            *training(turns, settings.algorithm),
        ]
    except (ValueError, LookupError, TypeError, OSError) as error:
        reason = f"{type(error).__name__}: {error}"
        raise WrongUseError(f"cannot read the loop in {folder}: {reason}") from error


def _summary(most: int, measured: Sequence[Turn], fruitless: Sequence[Turn]) -> Section:
    title = "Base and best model"
    if not measured:
        return Section(title, ["No measurements yet."])
    base, best = measured[0], _best(measured)
    judged = [*(turn for turn in measured if turn.gate), *fruitless]
    promoted = [turn.name for turn in judged if turn.promoted]
    words = [
        f"{counted(len(judged), 'turn')} of at most {most} finished; promoted: "
        f"{', '.join(promoted) or 'none'}. Only scores on dev decide about promotion; scores on test are "
        "reported only."
    ]
    ends = (base,) if best is base else (base, best)
    splits = [split for split in MEASURED if split in base.scores]
    facts = [
        Fact(
            f"{kind} on {split}",
            " → ".join(_short(turn.scores[split][kind]) for turn in ends),
            f"{' → '.join(turn.name for turn in ends)}, {counted(best.scores[split]['tasks'], 'task')}",
        )
        for split in splits
        for kind in KINDS
    ]
    rows: list[list[Cell]] = [
        [turn.name, turn.verdict, *(_score(turn.scores[split], kind) for split in splits for kind in KINDS)]
        for turn in measured
    ]
    rows += [[turn.name, turn.verdict, *[Score(None)] * (len(splits) * len(KINDS))] for turn in fruitless]
    columns = ["model", "promoted", *(f"{kind} on {split}" for split in splits for kind in KINDS)]
    charts = [_over_turns(split, measured) for split in splits]
    return Section(title, words, facts, [Table("Scores by turn", columns, rows)], charts)


def _over_turns(split: str, measured: Sequence[Turn]) -> Chart:
    """Return the chart of the scores on a split by turn."""
    found = [turn.scores[split] for turn in measured]
    x = [turn.number for turn in measured]
    hollow = [place for place, turn in enumerate(measured) if not turn.promoted]
    invalid = sum(scores["invalid"] for scores in found)
    more = " Hollow marks: models that were not promoted." if hollow else ""
    more += f" {counted(invalid, 'invalid episode')} in total; ticks: invalid as 0." if invalid else ""
    return LineChart(
        name=f"turns-{split}",
        title=f"Scores on {split} by turn",
        says=f"Marks: means over {_tasks(found)}; {INTERVALS}.{more}",
        table=_score_table(
            f"Scores on {split}", ["model"], [([turn.name], turn.scores[split]) for turn in measured]
        ),
        x_label="turn",
        ticks={turn.number: str(turn.number or "base") for turn in measured},
        hollow_means="not promoted",
        lines=[Line(kind, kind, x, [_score(scores, kind) for scores in found], hollow) for kind in KINDS],
    )


def _changes(changed: Sequence[Turn], measured: Sequence[Turn]) -> list[Section]:
    """Return the section about flips: each turn against the model promoted before it."""
    if not changed:
        return []
    charts = [
        _flip_chart(split, [turn for turn in changed if split in turn.changes], measured)
        for split in MEASURED
        if split in changed[0].changes
    ]
    flips: list[list[Cell]] = [
        [turn.name, split, task, words]
        for turn in changed
        for split in MEASURED
        for way, words in DIRECTIONS.items()
        for task in turn.changes.get(split, {}).get(way, ())
    ]
    tables = (
        [Table("Tasks that flipped, by name", ["model", "split", "task", "flip"], flips)] if flips else []
    )
    words = "Each turn's model compared with the model promoted before it, on the same tasks."
    return [Section("Tasks fixed and broken by turn", [words], tables=tables, charts=charts)]


def _flip_chart(split: str, turns: Sequence[Turn], measured: Sequence[Turn]) -> Chart:
    rows = [(turn.name, turn.changes[split]) for turn in turns]
    against = [turn.against(measured) for turn in turns]
    fixed, broken = ([len(change[way]) for _, change in rows] for way in DIRECTIONS)
    cells: list[list[Cell]] = [
        [name, before, change["common_tasks"], up, down, *(signed(change[kind]) for kind in KINDS)]
        for (name, change), before, up, down in zip(rows, against, fixed, broken, strict=True)
    ]
    columns = ["model", "against", "common tasks", "fixed", "broken", "partial", "strict"]
    return FlipChart(
        name=f"flips-{split}",
        title=f"Flips on {split}",
        says=f"{counted(sum(fixed), 'task')} fixed (right), {sum(broken)} broken (left), over all turns.",
        table=Table(f"Flips and paired differences on {split}", columns, cells),
        rows=[
            (name, f"against {before}, {counted(change['common_tasks'], 'task')}")
            for (name, change), before in zip(rows, against, strict=True)
        ],
        fixed=fixed,
        broken=broken,
    )


def _parts(measured: Sequence[Turn]) -> list[Section]:
    """Return a section by group and one by family, each comparing the base with the best model."""
    if len(measured) < 2:
        return []
    base, last = measured[0], _best(measured)
    if last is base:
        last = measured[-1]
    found = []
    for key, noun in PARTS:
        charts = [
            _part_chart(split, key, noun, base, last)
            for split in MEASURED
            if len(last.scores.get(split, {}).get(key, ())) > 1
        ]
        if charts:
            found.append(Section(f"By {noun}: {base.name} and {last.name}", charts=charts))
    return found


def _part_chart(split: str, key: str, noun: str, base: Turn, last: Turn) -> Chart:
    parts = last.scores[split][key]
    if len(parts) > MOST_ROWS:  # show the parts with most tasks
        parts = dict(sorted(parts.items(), key=lambda part: (-part[1]["tasks"], part[0])))
    before = base.scores[split].get(key, {})
    series = [
        dots
        for kind in KINDS
        for dots in (
            Dots(base.name, kind, [_score(before.get(part), kind) for part in parts], hollow=True),
            Dots(kind, kind, [_score(parts[part], kind) for part in parts]),
        )
    ]
    rows: list[tuple[list[Cell], Outcome]] = [
        ([part, turn.name], scores)
        for part in parts
        for turn, scores in ((base, before.get(part)), (last, parts[part]))
        if scores
    ]
    return DotChart(
        name=f"{key}-{split}",
        title=f"On {split}, by {noun}",
        says=f"Filled marks: {last.name}; hollow marks: {base.name}; {INTERVALS}; the number of tasks is at "
        "the right of each row.",
        table=_score_table(f"Scores on {split} by {noun}", [noun, "model"], rows),
        rows=[(part, counted(scores["tasks"], "task")) for part, scores in parts.items()],
        series=series,
    )


def _score_table(caption: str, head: Sequence[str], rows: Sequence[tuple[list[Cell], Outcome]]) -> Table:
    """Return a table of scores, with additional `invalid as 0` columns if any episode is invalid."""
    counts = ("episodes", "invalid", "tasks")
    lowered = [f"{kind}_invalid_as_0" for kind in KINDS] if any(found["invalid"] for _, found in rows) else []
    cells = [
        [
            *cells,
            *(found[name] for name in counts),
            *(_score(found, kind) for kind in KINDS),
            *(found[name] for name in lowered),
        ]
        for cells, found in rows
    ]
    return Table(caption, [*head, *counts, *KINDS, *(name.replace("_", " ") for name in lowered)], cells)


def _score(scores: Outcome | None, kind: str) -> Score:
    return score(scores, kind) if scores else Score(None)


def _best(measured: Sequence[Turn]) -> Turn:
    """Return the last turn whose model was promoted, or the base."""
    return [turn for turn in measured if turn.promoted][-1]


def _tasks(scores: Sequence[Outcome]) -> str:
    """Return the number of graded tasks as text, as a range if it varies."""
    counts = sorted({found["tasks"] for found in scores})
    return counted(counts[0], "task") if len(counts) == 1 else f"{counts[0]} to {counts[-1]} tasks"


def _short(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"
