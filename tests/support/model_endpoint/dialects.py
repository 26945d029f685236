"""The dialects of the endpoint. To add one, write a module with a `Dialect` and add a line here."""

from __future__ import annotations

from .anthropic_messages import ANTHROPIC_MESSAGES
from .chat_completions import CHAT_COMPLETIONS
from .dialect import Dialect
from .gemini import GEMINI
from .responses import RESPONSES

DIALECTS: tuple[Dialect, ...] = (CHAT_COMPLETIONS, ANTHROPIC_MESSAGES, RESPONSES, GEMINI)
