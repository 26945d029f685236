"""Names for tasks that the source does not name."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence

from mcp_bench.recorder.importers.attempt import IMPORTED
from mcp_bench.recorder.trajectory import Message


def task_of_messages(messages: Sequence[Message]) -> str:
    """Return a task name for a conversation.

    The prompt is what the user says first: many tasks share a system message. Without a user it is the first
    message.
    """
    prompts = [message.content for message in messages if message.role == "user"]
    return task_of(prompts[0] if prompts else messages[0].content if messages else None)


def task_of(prompt: str | None) -> str:
    """Return a task name made from a hash of the prompt: attempts at one task share it."""
    digest = hashlib.sha256(json.dumps(prompt).encode()).hexdigest()
    return f"{IMPORTED}-{digest[:12]}"
