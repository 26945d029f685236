"""Which of a tokenizer's chat templates is used, in training and in serving."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def tool_template(template: str | Mapping[str, Any] | None) -> str | None:
    """Return a tokenizer's chat template; of several with names, the one for tools, else the default.

    transformers takes the same one for a conversation with tools.
    """
    if isinstance(template, Mapping):
        return template.get("tool_use") or template.get("default")
    return template
