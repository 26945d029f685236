"""Names of tasks that a source does not name."""

from __future__ import annotations

import hashlib
import json

from mcp_bench.recorder.importers.attempt import IMPORTED


def task_of(prompt: str | None) -> str:
    """Name a task by what was asked, so that attempts at one are known as such."""
    digest = hashlib.sha256(json.dumps(prompt).encode()).hexdigest()
    return f"{IMPORTED}-{digest[:12]}"
