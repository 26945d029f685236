"""The table of attacks in docs/security/attacks.md."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from mcp_bench.recorder.isolation_levels import LEVELS

HEAD = ["kind", "attack", *LEVELS, "seen as"]


@dataclass(frozen=True)
class Row:
    kind: str
    name: str
    outcome: dict[str, str]
    """By level: `yes`, `no`, or `as root`."""
    seen: set[str]
    """Flags, and kinds of evidence of taint."""


def table(page: Path) -> list[Row]:
    lines = [cells(line) for line in page.read_text().splitlines() if line.startswith("|")]
    rows = lines[lines.index(HEAD) + 2 :]
    return [
        Row(kind, name, dict(zip(LEVELS, outcome, strict=True)), {word for word in seen.split(", ") if word})
        for kind, name, *outcome, seen in rows[
            : next((n for n, row in enumerate(rows) if len(row) != len(HEAD)), None)
        ]
    ]


def cells(line: str) -> list[str]:
    return [cell.strip().replace("`", "") for cell in line.strip().strip("|").split("|")]
