"""The content of a page: sections with facts, charts and tables. Other modules render them.

Texts can come from agents. They are shown as text, never interpreted as markup.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Self

Role = Literal["partial", "strict", "fixed", "broken", "loss"]
"""What a mark stands for. A role has the same colour in all charts."""


@dataclass(frozen=True, slots=True)
class Score:
    """A mean (None if nothing was graded) with its 95 % interval (None with fewer than two tasks)."""

    value: float | None
    interval: tuple[float, float] | None = None
    lowered: float | None = None
    """The mean with invalid episodes as 0, if there are any."""
    signed: bool = False
    """True for differences."""


class Link(str):
    """A text that leads somewhere."""

    __slots__ = ("href",)

    def __new__(cls, text: str, href: str) -> Self:
        made = super().__new__(cls, text)
        made.href = href
        return made

    href: str


Cell = str | int | float | Score | None


@dataclass(frozen=True, slots=True)
class Table:
    """A table. `note` is shown below it."""

    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """A chart with its title, a one-sentence caption, and its values as a table."""

    name: str
    """Prefix of the PNG's file name. Need not be unique or safe as a file name."""
    title: str
    says: str
    """The caption."""
    table: Table


@dataclass(frozen=True, slots=True)
class Dots:
    """One score of each row of a chart."""

    name: str
    role: Role
    scores: Sequence[Score]
    hollow: bool = False
    """Drawn hollow, for earlier values, in the same lane as the next series."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DotChart(Chart):
    """Scores with intervals. Each row has a label and a note, such as its number of tasks."""

    rows: Sequence[tuple[str, str]]
    series: Sequence[Dots]


@dataclass(frozen=True, slots=True)
class Line:
    """Points from left to right. `hollow` lists the indices of points with hollow marks."""

    name: str
    role: Role
    x: Sequence[float]
    scores: Sequence[Score]
    hollow: Sequence[int] = ()
    strength: float = 1.0
    """Opacity, 0..1, to distinguish lines of the same role."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LineChart(Chart):
    """Lines over turns or steps."""

    x_label: str
    lines: Sequence[Line]
    ticks: Mapping[float, str] = field(default_factory=dict)
    """Labels of positions on the x axis. If empty, the axis shows numbers."""
    hollow_means: str = ""
    share: bool = True
    """True for values in 0..1, false for any values: their axis has 0, too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FlipChart(Chart):
    """Numbers of newly solved tasks (to the right) and newly failed tasks (to the left)."""

    rows: Sequence[tuple[str, str]]
    """Label and note of each row."""
    fixed: Sequence[int]
    broken: Sequence[int]


@dataclass(frozen=True, slots=True)
class Fact:
    """A key figure, shown in large type."""

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
"""Maximum rows of a chart. Its table has all rows."""
DIRECTIONS = {"fail_to_pass": "fail → pass", "pass_to_fail": "pass → fail"}
"""Labels of the two kinds of flips."""
INTERVALS = "bars: 95 % bootstrap intervals clustered by task"
