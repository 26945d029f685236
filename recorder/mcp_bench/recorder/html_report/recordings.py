"""Sections about recorded episodes: scores by group, by domain and by level."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from mcp_bench.recorder.counted import counted
from mcp_bench.recorder.html_report.searches import searched
from mcp_bench.recorder.html_report.sections import (
    INTERVALS,
    MOST_ROWS,
    Cell,
    DotChart,
    Dots,
    Fact,
    Score,
    Section,
    Table,
)
from mcp_bench.recorder.runs.reader import StoredEpisode
from mcp_bench.recorder.scores.conditions import (
    CONDITIONS,
    common_conditions,
    differing_conditions,
    values_of,
)
from mcp_bench.recorder.scores.scores import measured_score, summarise, usual_attempts
from mcp_bench.recorder.scores.task_names import level
from mcp_bench.recorder.utc import utc

Row = dict[str, Any]
_SPENT = (
    ("calls per episode", "tool_calls_per_episode"),
    ("failed calls", "failed_calls"),
    ("seconds per episode", "seconds_per_episode"),
    ("tokens in", "input_tokens"),
    ("of them cached", "cached_tokens"),
    ("tokens out", "output_tokens"),
    ("model calls", "model_calls"),
    ("cost, $", "cost_usd"),
    ("cost of roles, $", "roles_cost_usd"),
    ("cost per solved task, $", "cost_per_solved_usd"),
    ("verified", "verified"),
    ("on public tasks", "public_tasks"),
)
MOST_GROUPS = 8
"""Maximum number of groups with their own charts."""


def recorded(episodes: Sequence[StoredEpisode], by: Sequence[str]) -> list[Section]:
    """Return the sections about ended episodes, grouped by some of `scores.GROUPS`."""
    groups = _groups(episodes, by)
    rows = {key: summarise(group, by)[0] for key, group in groups.items()}
    names = labels(list(rows.values()), by)
    named = dict(zip(rows, names, strict=True))
    sections = [_scores(list(rows.values()), names, by)]
    domains = {} if "domain" in by else {key: _by_domain(group) for key, group in groups.items()}
    for title, noun, tables in (
        ("By domain", "domain", domains),
        ("By level", "level", {key: _by_level(group) for key, group in groups.items()}),
    ):
        sections += _parts(title, noun, {named[key]: found for key, found in tables.items()})
    section = searched({named[key]: group for key, group in groups.items()})
    return [*sections, section] if section else sections


def about(episodes: Sequence[StoredEpisode]) -> str:
    """Return a line that summarises which recordings the page covers."""
    if not episodes:
        return "No recordings."
    days = sorted({utc(episode.started_us, "%Y-%m-%d") for episode in episodes})
    span = days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"
    runs = counted(len({episode.run for episode in episodes}), "run")
    return f"{counted(len(episodes), 'episode')} of {runs}, {span}"


def labels(rows: Sequence[Mapping[str, Any]], by: Sequence[str]) -> list[str]:
    """Return a label for each row: the values of the fields that differ between rows, or of all fields.

    A row without a value that others have says so: `no model`.
    """
    facts = [name for name in by if name not in CONDITIONS]
    differ = [name for name in facts if len({row[name] for row in rows}) > 1]
    different = differing_conditions(rows) if set(by) & set(CONDITIONS) else [""] * len(rows)
    if not differ and not any(different):
        differ = [name for name in facts if any(row[name] is not None for row in rows)]
    found = [
        [*(f"no {name}" if row[name] is None else str(row[name]) for name in differ), *filter(None, [words])]
        for row, words in zip(rows, different, strict=True)
    ]
    return [" · ".join(parts) or "all" for parts in found]


def score(row: Row, name: str) -> Score:
    """Return the partial or strict score of a report row."""
    interval = row[f"{name}_ci"]
    lowered = row[f"{name}_invalid_as_0"] if row["invalid"] else None
    return Score(row[name], tuple(interval) if interval else None, lowered)


def score_chart(name: str, title: str, noun: str, parts: Sequence[tuple[str, Row]]) -> DotChart:
    """Return a chart of the partial and strict scores of labelled rows.

    Args:
        name: prefix of the file name.
        title: the chart's title.
        noun: heading of the label column.
        parts: labels and report rows.
    """
    scores = {kind: [score(row, kind) for _, row in parts] for kind in ("partial", "strict")}
    invalid = any(row["invalid"] for _, row in parts)
    columns = [noun, "episodes", "invalid", "tasks", "partial", "strict"]
    columns += ["partial, invalid as 0", "strict, invalid as 0"] if invalid else []
    tasks = sum(row["tasks"] for _, row in parts)
    several = "the number of tasks is at the right of each row"
    n = counted(tasks, "task") if len(parts) == 1 else several
    ticks = "; vertical ticks: scores with invalid episodes as 0" if invalid else ""
    return DotChart(
        name=name,
        title=title,
        says=f"Dots: means over valid graded episodes; {INTERVALS}; {n}{ticks}.",
        table=Table(title, columns, [_figures(label, row, lowered=invalid) for label, row in parts]),
        rows=[(label, _note(row)) for label, row in parts],
        series=[
            Dots("partial", "partial", scores["partial"]),
            Dots("strict", "strict", scores["strict"]),
        ],
    )


def _groups(
    episodes: Iterable[StoredEpisode], by: Sequence[str]
) -> dict[tuple[Any, ...], list[StoredEpisode]]:
    found: dict[tuple[Any, ...], list[StoredEpisode]] = {}
    for episode in episodes:
        found.setdefault(values_of(episode, by), []).append(episode)
    return {key: found[key] for key in sorted(found, key=lambda key: [str(part) for part in key])}


def _by_domain(episodes: Sequence[StoredEpisode]) -> list[tuple[str, Row]]:
    return [(row["domain"], row) for row in summarise(episodes, ["domain"])]


def _by_level(episodes: Sequence[StoredEpisode]) -> list[tuple[str, Row]]:
    levels: dict[int, list[StoredEpisode]] = {}
    for episode in episodes:
        if (found := level(episode.task)) is not None:
            levels.setdefault(found, []).append(episode)
    return [(f"level {number}", summarise(levels[number], ())[0]) for number in sorted(levels)]


def _scores(rows: Sequence[Row], names: Sequence[str], by: Sequence[str]) -> Section:
    if not rows:
        return Section("Scores", ["No recordings yet. Create some with `mcp-bench record`."])
    alike = [name for name in by if len({row[name] for row in rows}) == 1]
    known = [name for name in alike if name not in CONDITIONS and rows[0][name] is not None]
    same = [f"{name} {rows[0][name]}" for name in known]
    same += [common_conditions(rows)]
    same = list(filter(None, same))
    words = [f"All groups: {', '.join(same)}."] if same and len(rows) > 1 else []
    words += _trouble(rows)
    shown = [one for one in zip(names, rows, strict=True) if one[1]["partial"] is not None]
    charts = [score_chart("scores", "Partial and strict", "group", shown)] if shown else []
    return Section("Scores", words, _facts(rows), [_whole(rows, names)], charts)


def _facts(rows: Sequence[Row]) -> list[Fact]:
    scores = [(kind, score(rows[0], kind)) for kind in ("partial", "strict") if len(rows) == 1]
    episodes, invalid, verified = (
        sum(row[name] for row in rows) for name in ("episodes", "invalid", "verified")
    )
    facts = [
        *(_score_fact(kind, found) for kind, found in scores),
        Fact("episodes", f"{episodes:,}", f"{verified:,} verified"),
        Fact("invalid", f"{invalid:,}", f"{invalid / episodes:.1%} of the episodes" if invalid else ""),
        Fact(
            "tool calls",
            f"{sum(row['tool_calls'] for row in rows):,}",
            f"{sum(row['failed_calls'] for row in rows):,} failed",
        ),
    ]
    spent = [row["cost_usd"] for row in rows if row["cost_usd"] is not None]
    return [*facts, *([Fact("cost", f"${sum(spent):.2f}", "as reported by the agents")] if spent else [])]


def _trouble(rows: Sequence[Row]) -> list[str]:
    reasons: Counter[str] = sum((Counter(row["invalid_reasons"]) for row in rows), Counter())
    claims: Counter[str] = sum((Counter(row["claims"]) for row in rows), Counter())
    words = []
    if claims:
        listed = ", ".join(f"{count} {reason}" for reason, count in sorted(claims.items()))
        words.append(
            f"{claims.total():,} are graded although their agent reported a failure in every attempt "
            f"({listed}), which the referee did not see."
        )
    if not reasons:
        return words
    listed = ", ".join(f"{count} {reason}" for reason, count in sorted(reasons.items()))
    episodes = sum(row["episodes"] for row in rows)
    return [
        *words,
        f"{reasons.total():,} of {episodes:,} episodes are invalid ({listed}). Invalid episodes failed for "
        "reasons outside the agent; scores exclude them unless marked `invalid as 0`.",
    ]


def _whole(rows: Sequence[Row], names: Sequence[str]) -> Table:
    """Return the table of all figures of each group, including usage and cost."""
    columns: list[tuple[str, list[Cell]]] = [
        ("group", list(names)),
        ("episodes", [row["episodes"] for row in rows]),
        ("invalid", [row["invalid"] for row in rows]),
        ("partial", [score(row, "partial") for row in rows]),
        ("strict", [score(row, "strict") for row in rows]),
        ("score", [measured_score(row["score"]) or None for row in rows]),
    ]
    if any(row["retried"]["episodes"] for row in rows):
        columns += [
            (title, [row[name][what] for row in rows])
            for title, name, what in (
                ("strict, 1st attempts", "first_attempts", "strict"),
                ("retried", "retried", "episodes"),
                ("strict, retried", "retried", "strict"),
            )
        ]
    attempts = [usual_attempts(row) or {} for row in rows]
    columns += [
        (title, [entry.get(name) for entry in attempts])
        for title, name in (("attempts, k", "k"), ("pass@k", "pass_at_k"), ("pass^k", "pass_hat_k"))
    ]
    columns += [(title, [row[name] for row in rows]) for title, name in _SPENT]
    columns += [("run tags", [", ".join(row["run_tags"]) or None for row in rows])]
    known = [(title, cells) for title, cells in columns if any(cell is not None for cell in cells)]
    return Table(
        "Scores and usage by group",
        [title for title, _ in known],
        list(zip(*(cells for _, cells in known), strict=True)),
    )


def _parts(title: str, noun: str, groups: Mapping[str, Sequence[tuple[str, Row]]]) -> list[Section]:
    """Return a section about parts: groups side by side in one chart, or, if they are too many, one for each.

    Parts without a valid graded episode have no marks, so they are left out.
    """
    scored = {
        label: [one for one in parts if one[1]["partial"] is not None] for label, parts in groups.items()
    }
    divided = {label: parts for label, parts in scored.items() if len(parts) > 1}
    if not divided:
        return []
    together = [(part, label, row) for label, parts in scored.items() for part, row in parts]
    if len(divided) > 1 and len(together) <= MOST_ROWS:
        order = list(dict.fromkeys(part for parts in divided.values() for part, _ in parts))
        together = [one for one in together if one[0] in order]
        together.sort(key=lambda one: order.index(one[0]))
        beside = [(f"{part}: {label}", row) for part, label, row in together]
        return [Section(title, charts=[score_chart(noun, f"{title}, side by side", noun, beside)])]
    shown = dict(list(divided.items())[:MOST_GROUPS])
    more = len(divided) - len(shown)
    words = []
    if more:
        words.append(
            f"Only the first {len(shown)} groups have charts; {more} more do not. Use --by or --run."
        )
    charts = [
        score_chart(f"{noun} {label}", f"{label}: by {noun}" if len(groups) > 1 else title, noun, parts)
        for label, parts in shown.items()
    ]
    return [Section(title, words, charts=charts)]


def _figures(label: str, row: Row, *, lowered: bool) -> list[Cell]:
    cells: list[Cell] = [label, row["episodes"], row["invalid"], row["tasks"]]
    cells += [score(row, "partial"), score(row, "strict")]
    return [*cells, *([row["partial_invalid_as_0"], row["strict_invalid_as_0"]] if lowered else [])]


def _note(row: Row) -> str:
    return counted(row["tasks"], "task") + (f", {row['invalid']} invalid" if row["invalid"] else "")


def _score_fact(kind: str, found: Score) -> Fact:
    span = found.interval
    shown = "-" if found.value is None else f"{found.value:.2f}"
    return Fact(kind, shown, f"{span[0]:.2f} to {span[1]:.2f}" if span else "")
