"""The families of codeworld: each makes tasks of one kind from chance and a level."""

from __future__ import annotations

from mcp_bench.servers.codeworld.case import Make
from mcp_bench.servers.codeworld.families import (
    access_log,
    build,
    csv_cleaning,
    failing_function,
    file_names,
    git_history,
    lock_file,
    settings_file,
    slow_function,
    small_model,
    sql_question,
    vulnerability,
)

FAMILIES: dict[str, Make] = {
    "access-log": access_log.make,
    "build": build.make,
    "csv-cleaning": csv_cleaning.make,
    "failing-function": failing_function.make,
    "file-names": file_names.make,
    "git-history": git_history.make,
    "lock-file": lock_file.make,
    "settings-file": settings_file.make,
    "slow-function": slow_function.make,
    "small-model": small_model.make,
    "sql-question": sql_question.make,
    "vulnerability": vulnerability.make,
}
HELD_OUT = frozenset({"git-history", "file-names", "lock-file", "sql-question"})
"""Families of `test` alone."""
PROGRAMS: dict[str, tuple[str, ...]] = {"build": ("make", "cc"), "git-history": ("git",)}
"""Programs on the machine that a family needs, besides Python."""
