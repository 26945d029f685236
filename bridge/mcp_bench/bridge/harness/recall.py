"""The tool `recall`: attempts that a harness keeps, found by words.

The texts are a snapshot in the harness's folder, so what can be recalled has the harness's version. The index
is SQLite's FTS5, made for each question: 256 KiB take milliseconds.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass

from mcp_bench.servers.contracts import ToolResult, ToolSpec
from mcp_bench.servers.worlds.object_tool import object_tool

RECALL = "recall"
MOST = 5
USUAL = 2
WORD = re.compile(r"\w{3,}")


@dataclass(frozen=True)
class Recalled:
    """A text that can be recalled, and the task that it is about; empty if it is about no single task."""

    text: str
    task: str = ""


def recall_tool() -> ToolSpec:
    return object_tool(
        RECALL,
        "Find solved tasks that resemble yours, with the calls that solved them.",
        ("words",),
        words={"type": "string", "description": "What the task is about."},
        limit={
            "type": "integer",
            "minimum": 1,
            "maximum": MOST,
            "description": f"How many (default {USUAL}).",
        },
    )


def recall(texts: Mapping[str, Recalled], words: str, limit: int = USUAL) -> ToolResult:
    """Return the texts that fit best: those with the rarest of the words (BM25)."""
    terms = sorted({word.lower() for word in WORD.findall(words)})
    if not terms:
        return ToolResult(text="Name some words of the task.", is_error=True)
    with closing(sqlite3.connect(":memory:")) as db:
        db.execute(
            "CREATE VIRTUAL TABLE texts USING fts5 (name UNINDEXED, text, tokenize = 'porter unicode61')"
        )
        db.executemany("INSERT INTO texts VALUES (?, ?)", [(name, one.text) for name, one in texts.items()])
        query = " OR ".join(f'"{term}"' for term in terms)
        found = db.execute(
            "SELECT text FROM texts WHERE texts MATCH ? ORDER BY rank, name LIMIT ?", (query, limit)
        ).fetchall()
    return ToolResult(text="\n\n".join(text for (text,) in found) or "Nothing resembles that.")
