"""evalscope's outputs: `reviews/` has the scores, `predictions/` the model outputs.

A review contains the conversation as well. A prediction alone is imported without a grade.
https://github.com/modelscope/evalscope
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from mcp_bench.recorder.importers import Row
from mcp_bench.recorder.importers.attempt import Attempt, RowError, number, partial_grade
from mcp_bench.recorder.importers.conversation import chat_messages, tool_schemas
from mcp_bench.recorder.importers.json_rows import first, rows
from mcp_bench.recorder.trajectory import Usage


class EvalScope:
    name = "evalscope"
    summary = "evalscope's reviews and predictions"
    patterns = ("reviews/**/*.jsonl",)

    def recognises(self, path: Path) -> bool:
        keys = first(path).keys()
        return {"index", "sample_score"} <= keys or {"index", "model_output", "messages"} <= keys

    def rows(self, path: Path) -> Iterator[Row]:
        return rows(path, partial(_attempts, path))


def _attempts(path: Path, row: dict[str, Any]) -> Iterator[Attempt]:
    if "index" not in row or "messages" not in row:
        raise RowError("the row has no index or no messages")
    sample = row.get("sample_score") or {}
    score = sample.get("score") or {}
    values = score.get("value") or {}
    main = score.get("main_score_name") or next(iter(values), None)
    task = sample.get("sample_id")
    benchmark, _, subset = path.stem.partition("_")
    messages = list(row["messages"])
    output = row.get("model_output")
    if isinstance(output, dict) and messages and messages[-1].get("role") != "assistant":
        messages += [choice["message"] for choice in (output.get("choices") or [])[:1]]
    yield Attempt(
        messages=chat_messages(messages),
        tools=tool_schemas((row.get("metadata") or {}).get("tools")),
        benchmark=benchmark,
        task=f"{path.stem}/{row['index'] if task is None else task}",
        domain=subset or None,
        model=row.get("model") or (path.parent.name if path.parent.parent.name in _FOLDERS else None),
        partial=partial_grade(values.get(main)),
        metrics={"scores": values} if values else {},
        assertions=[_assertion(name, value, score) for name, value in values.items()],
        usage=_usage(output),
    )


_FOLDERS = ("reviews", "predictions")


def _assertion(name: str, value: Any, score: Mapping[str, Any]) -> dict[str, Any]:
    grade = number(value)
    return {
        "name": name,
        "passed": grade == 1,
        "detail": str(score.get("explanation") or ""),
    }


def _usage(output: Any) -> Usage | None:
    usage = output.get("usage") if isinstance(output, dict) else None
    if not isinstance(usage, dict):
        return None
    return Usage(input_tokens=usage.get("input_tokens"), output_tokens=usage.get("output_tokens"))
