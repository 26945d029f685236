"""How model endpoints say that a conversation is too long for the model: in words, each in its own.

It is the agent's own failure, since what went into the conversation, and what might have been left out of
it, was the agent's doing.
"""

from __future__ import annotations

import re

OVERFLOW = re.compile(
    r"""
    context[ _-]?(length|window|size|limit|overflow)  # OpenAI's code, and most words: vLLM, SGLang, llama.cpp
    | (maximum|max)[ ](prompt[ ]length|context)       # xAI, Mistral
    | (prompt|input)[ ]is[ ]too[ ]long                # Anthropic, Bedrock
    | exceeds?[ ]the[ ]maximum[ ]number[ ]of[ ]tokens # Gemini
    | range[ ]of[ ]input[ ]length                     # DashScope
    | inputs?`?[ ]tokens[ ]\+                         # Text Generation Inference
    | too[ ]many[ ](input[ ])?tokens                  # Cohere
    | (input|prompt)\b.{0,40}\b(exceeds|longer[ ]than)\b.{0,60}\b(tokens?|length)\b
    """,
    re.IGNORECASE | re.VERBOSE,
)
RATE = re.compile(r"rate.?limit|tokens per|per (minute|day)|\bTPM\b|quota", re.IGNORECASE)


def overflowed(message: str) -> bool:
    """Say whether an error means a conversation too long for the model, and not too much for a time."""
    return bool(OVERFLOW.search(message)) and not RATE.search(message)
