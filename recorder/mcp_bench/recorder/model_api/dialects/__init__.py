"""The supported model APIs. To add one, write a module with a `Dialect` and list it in `DIALECTS`."""

from __future__ import annotations

from mcp_bench.recorder.model_api.dialects.anthropic_messages import ANTHROPIC_MESSAGES
from mcp_bench.recorder.model_api.dialects.chat_completions import CHAT_COMPLETIONS
from mcp_bench.recorder.model_api.dialects.dialect import Dialect
from mcp_bench.recorder.model_api.dialects.gemini import GEMINI
from mcp_bench.recorder.model_api.dialects.responses import RESPONSES

DIALECTS: tuple[Dialect, ...] = (CHAT_COMPLETIONS, ANTHROPIC_MESSAGES, RESPONSES, GEMINI)
BY_NAME = {dialect.name: dialect for dialect in DIALECTS}
"""By the name that a recorded model call has."""


def dialect_of(path: str) -> Dialect | None:
    """Return the dialect whose completion endpoint has this path (without the query), or None."""
    return next((dialect for dialect in DIALECTS if dialect.path.search(path)), None)
