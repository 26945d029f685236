"""Names for tasks that the source does not name."""

from __future__ import annotations

import hashlib
import json

from mcp_bench.recorder.importers.attempt import IMPORTED


def task_of(prompt: str | None) -> str:
    """Return a task name made from a hash of the prompt: attempts at one task share it."""
    digest = hashlib.sha256(json.dumps(prompt).encode()).hexdigest()
    return f"{IMPORTED}-{digest[:12]}"
