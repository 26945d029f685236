"""Removal of exact and near duplicates of conversations."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from hashlib import blake2b

from mcp_bench.recorder.curation.candidate import Candidate, quality
from mcp_bench.recorder.leakage.similarity import SimilarTexts, calls_text
from mcp_bench.recorder.trajectory import Trajectory


def fingerprint(trajectory: Trajectory) -> bytes:
    """Return a hash of the conversation, without the ids of calls, which agents make up."""
    messages = [
        [
            message.role,
            message.content,
            message.reasoning,
            message.name,
            message.is_error,
            [[call.function.name, call.function.arguments] for call in message.tool_calls],
            *(image.data for image in message.images),
        ]
        for message in trajectory.messages
    ]
    return blake2b(json.dumps(messages, sort_keys=True).encode(), digest_size=16).digest()


def gist(trajectory: Trajectory) -> str:
    """Return the text that near duplicates are compared by: the prompt, the calls and the last answer.

    Results and reasoning are left out. They are long, and the same calls give the same results.
    """
    parts = [message.content or "" for message in trajectory.messages if message.role == "user"]
    calls = [call.function for message in trajectory.messages for call in message.tool_calls]
    parts.append(calls_text((call.name, call.arguments) for call in calls))
    answers = [
        message.content for message in trajectory.messages if message.role == "assistant" and message.content
    ]
    return "\n".join([*parts, *answers[-1:]])


def without_exact(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Keep the best candidate with each fingerprint."""
    kept = {one.fingerprint: one.id for one in _worst_first(candidates)}
    return [one for one in candidates if kept[one.fingerprint] == one.id]


def without_near(candidates: Sequence[Candidate], threshold: float) -> list[Candidate]:
    """Keep a candidate, best first, unless it is a near duplicate of one that is kept already."""
    seen = SimilarTexts(threshold)
    kept: set[str] = set()
    for one in sorted(candidates, key=quality):
        if one.signature is None:
            raise ValueError(f"{one.id} has no signature")
        if seen.most_similar(one.signature) is None:
            seen.add(one.id, one.signature)
            kept.add(one.id)
    return [one for one in candidates if one.id in kept]


def _worst_first(candidates: Iterable[Candidate]) -> list[Candidate]:
    return sorted(candidates, key=quality, reverse=True)
