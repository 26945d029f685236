"""What a page is made of: sections with facts, charts and tables. Data only; how it is drawn is elsewhere.

Texts may come from agents: they are put on the page as text, never as markup.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

Role = Literal["partial", "strict", "fixed", "broken", "loss"]
"""What a mark stands for; the same role has the same colour everywhere."""


@dataclass(frozen=True, slots=True)
class Score:
    """A mean (None where nothing was graded) with its 95 % interval (None with fewer than two tasks)."""

    value: float | None
    interval: tuple[float, float] | None = None
    lowered: float | None = None
    """The mean with every invalid episode as 0, where there are any."""
    signed: bool = False
    """It is a difference."""


Cell = str | int | float | Score | None


@dataclass(frozen=True, slots=True)
class Table:
    """Figures in rows. `note` stands below."""

    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """A picture: what it is called, a sentence that says what is seen, and its figures."""

    name: str
    """Begins the name of its PNG; made of words of ours or of names, which need not be unique."""
    title: str
    says: str
    table: Table


@dataclass(frozen=True, slots=True)
class Dots:
    """One score of each row of a chart."""

    name: str
    role: Role
    scores: Sequence[Score]
    hollow: bool = False
    """What came before: it is on the same line as the dots that follow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DotChart(Chart):
    """Scores with intervals, for each row a label and a note such as how many tasks there were."""

    rows: Sequence[tuple[str, str]]
    series: Sequence[Dots]


@dataclass(frozen=True, slots=True)
class Line:
    """Points from left to right. `hollow` are places in `x` whose marks are not filled."""

    name: str
    role: Role
    x: Sequence[float]
    scores: Sequence[Score]
    hollow: Sequence[int] = ()
    strength: float = 1.0
    """0..1: how much it stands out from others of its role."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LineChart(Chart):
    """Lines over turns or steps."""

    x_label: str
    lines: Sequence[Line]
    ticks: Mapping[float, str] = field(default_factory=dict)
    """Names of places on the x axis; without any, they are numbers."""
    hollow_means: str = ""
    share: bool = True
    """The values are 0..1; else they are 0 or more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FlipChart(Chart):
    """How many tasks became solved (to the right), and how many no longer are (to the left)."""

    rows: Sequence[tuple[str, str]]
    """As of a DotChart."""
    fixed: Sequence[int]
    broken: Sequence[int]


@dataclass(frozen=True, slots=True)
class Fact:
    """A figure to see at once."""

    label: str
    value: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class Section:
    title: str
    words: Sequence[str] = ()
    """Paragraphs."""
    facts: Sequence[Fact] = ()
    tables: Sequence[Table] = ()
    charts: Sequence[Chart] = ()


MOST_ROWS = 20
"""Of a chart: its table has all."""
DIRECTIONS = {"fail_to_pass": "fail → pass", "pass_to_fail": "pass → fail"}
"""Of tasks that flip, in words."""
INTERVALS = "bars are 95 % bootstrap intervals clustered by task"


def counted(number: int, word: str) -> str:
    """Return a number with its noun: `1 task`, `2 tasks`."""
    return f"{number:,} {word}{'' if number == 1 else 's'}"
