"""An attempt as a short text that a model reads as an example."""

from __future__ import annotations

import json

from mcp_bench.bridge.memory.attempts import Attempt

MOST_RESULT = 160
"""Characters of a tool's result; the rest is left out."""
MOST_PROMPT = 1_200


def compact(attempt: Attempt, most: int = 4_000) -> str:
    """Return the task, the calls that did not fail, and the answer; at most `most` characters."""
    lines = [f"Task: {_cut(attempt.episode.prompt, MOST_PROMPT)}"]
    for one in attempt.calls:
        if not one.failed:
            arguments = json.dumps(one.call.function.arguments, ensure_ascii=False)
            lines += [f"-> {one.tool} {arguments}", f"   {_cut(one.result, MOST_RESULT)}"]
    if answer := (attempt.episode.answer or "").strip():
        lines.append(f"Answer: {_cut(answer, MOST_PROMPT)}")
    return _cut("\n".join(lines), most, lines=True)


def whole(attempt: Attempt, most: int = 6_000) -> str:
    """Return the same with its failed calls, for a model that judges it. A long one lacks its middle."""
    lines = [f"Task: {_cut(attempt.episode.prompt, MOST_PROMPT)}"]
    for one in attempt.calls:
        arguments = json.dumps(one.call.function.arguments, ensure_ascii=False)
        lines += [
            f"-> {one.tool} {arguments}",
            f"   {'ERROR: ' if one.failed else ''}{_cut(one.result, MOST_RESULT)}",
        ]
    lines.append(f"Answer: {_cut((attempt.episode.answer or '').strip(), MOST_PROMPT)}")
    text = "\n".join(lines)
    half = most // 2 - 10
    return text if len(text) <= most else f"{text[:half]}\n[...]\n{text[-half:]}"


def _cut(text: str, most: int, *, lines: bool = False) -> str:
    text = text if lines else " ".join(text.split())
    return text if len(text) <= most else f"{text[: most - 2]} …"
