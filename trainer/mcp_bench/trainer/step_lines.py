"""Files of a run that grow by a JSON object on a line for each step, such as `metrics.jsonl`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mcp_bench.recorder.atomic_file import write_atomic


def append_line(path: Path, line: dict[str, Any]) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")


def read_lines(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the lines; none without a file. A last one that a kill has cut off is left out."""
    if path.is_file():
        with path.open(encoding="utf-8") as file:
            yield from (json.loads(line) for line in file if line.endswith("\n"))


def keep_until(path: Path, step: int | None) -> None:
    """Remove the lines after a step, which a resumed run repeats; all, if it begins again."""
    kept = [line for line in read_lines(path) if step is not None and line["step"] <= step]
    write_atomic(path, "".join(json.dumps(line) + "\n" for line in kept))
