"""Chat messages, one conversation per row: OpenAI, TRL and prime-rl rows, and our exports of each."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from mcp_bench.recorder.importers import Row
from mcp_bench.recorder.importers.attempt import Attempt, RowError
from mcp_bench.recorder.importers.conversation import chat_messages, tool_schemas
from mcp_bench.recorder.importers.facts import facts, failed_calls
from mcp_bench.recorder.importers.image_files import with_image_files
from mcp_bench.recorder.importers.json_rows import LINE_PATTERNS, first, rows
from mcp_bench.recorder.importers.task_name import task_of_messages


class Chat:
    """Rows with `messages`, or with `prompt` and `completion`.

    Grade, task and other facts are in the row itself or in `metadata`.
    """

    name = ""
    summary = ""
    patterns = LINE_PATTERNS

    def recognises(self, path: Path) -> bool:
        return False

    def rows(self, path: Path) -> Iterator[Row]:
        return rows(path, partial(self._attempts, path.parent))

    def _attempts(self, folder: Path, row: dict[str, Any]) -> Iterator[Attempt]:
        said = with_image_files(row.get("messages"), folder)
        if said is None and "prompt" in row and "completion" in row:
            said = [*_list(row["prompt"], "user"), *_list(row["completion"], "assistant")]
        if said is None:
            raise RowError("the row has neither messages nor prompt and completion")
        metadata = row.get("metadata")
        about = {**row, **metadata} if isinstance(metadata, dict) else row
        messages = chat_messages(said, failed_calls(about))
        fields = facts(about)
        fields.setdefault("task", task_of_messages(messages))
        yield Attempt(
            messages=messages, tools=tool_schemas(row.get("tools") or row.get("tool_defs")), **fields
        )


class OpenAI(Chat):
    name = "openai"
    summary = "chat messages in JSON lines"

    def recognises(self, path: Path) -> bool:
        row = first(path)
        return isinstance(row.get("messages"), list) and not ({"sample_score", "model_output"} & row.keys())


class Trl(Chat):
    name = "trl"
    summary = "TRL's conversational rows"


class PrimeRL(Chat):
    name = "prime-rl"
    summary = "prime-rl's prompt and completion"

    def recognises(self, path: Path) -> bool:
        row = first(path)
        keys = {"prompt", "completion"}
        return keys <= row.keys() and not ({"reward", "example_id"} & row.keys())


def _list(said: Any, role: str) -> list[Any]:
    if isinstance(said, str):
        return [{"role": role, "content": said}]
    if not isinstance(said, list):
        raise RowError("prompt or completion is neither a string nor a list")
    return said
