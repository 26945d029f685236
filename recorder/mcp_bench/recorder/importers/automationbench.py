"""The `--export-json` document of Zapier AutomationBench, with all tasks of an evaluation.

`score` is the partial grade and `passed` the strict grade.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from mcp_bench.recorder.importers import Row
from mcp_bench.recorder.importers.attempt import Attempt, RowError, partial_grade
from mcp_bench.recorder.importers.conversation import chat_messages, tool_schemas
from mcp_bench.recorder.importers.json_rows import json_object, parse
from mcp_bench.recorder.trajectory import Usage

_KEYS = {"meta", "tasks"}


class AutomationBench:
    name = "automationbench"
    summary = "AutomationBench's --export-json"
    patterns = ("*.json",)

    def recognises(self, path: Path) -> bool:
        if path.suffix != ".json":
            return False
        try:
            document = json.loads(path.read_bytes())
            task = document["tasks"][0]
            return bool(document.keys() >= _KEYS and task.keys() >= {"score", "passed", "messages"})
        except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError, MemoryError):
            return False

    def rows(self, path: Path) -> Iterator[Row]:
        document = json_object(parse(path.read_bytes()), "the document")
        if not isinstance(document.get("tasks"), list):
            raise RowError("the document has no list of tasks; it was not written by --export-json")
        meta = document.get("meta") if isinstance(document.get("meta"), dict) else {}
        for place, task in enumerate(document["tasks"], start=1):
            yield Row(f"task {place}", partial(_attempts, meta or {}, task))


def _attempts(meta: Mapping[str, Any], task: Any) -> list[Attempt]:
    row = json_object(task, "the task")
    domain, dot, _ = str(row.get("name") or "").partition(".")
    return [
        Attempt(
            messages=chat_messages(row["messages"]),
            tools=tool_schemas(row.get("tools") or meta.get("tools")),
            benchmark="automationbench",
            task=str(row.get("name") or row["id"]),
            domain=str(row.get("domain") or meta.get("domain") or (domain if dot else "")) or None,
            model=str(meta["model"]) if meta.get("model") else None,
            partial=partial_grade(row.get("score")),
            strict=bool(row["passed"]) if row.get("passed") is not None else None,
            assertions=[_assertion(result) for result in row.get("assertion_results") or []],
            metrics={
                name: row[name]
                for name in ("assertions_total", "assertions_passed", "steps", "finish_reasons")
                if name in row
            },
            final_state=row.get("end_state"),
            usage=_usage(row),
        )
    ]


def _assertion(result: Mapping[str, Any]) -> dict[str, Any]:
    name = str(result.get("type") or "assertion")
    return {**result, "name": name, "passed": bool(result.get("passed"))}


def _usage(row: Mapping[str, Any]) -> Usage | None:
    usage = Usage(input_tokens=row.get("input_tokens"), output_tokens=row.get("output_tokens"))
    return usage if usage != Usage() else None
