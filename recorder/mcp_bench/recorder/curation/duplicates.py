"""The same conversation once: exact and near duplicates."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from hashlib import blake2b

from mcp_bench.recorder.curation.candidate import Candidate, quality
from mcp_bench.recorder.leakage.similarity import SimilarTexts, calls_text
from mcp_bench.recorder.trajectory import Trajectory


def fingerprint(trajectory: Trajectory) -> bytes:
    """Return a hash of the conversation; the ids of calls, which agents make up, do not count."""
    messages = [
        [
            message.role,
            message.content,
            message.reasoning,
            message.name,
            message.is_error,
            [[call.function.name, call.function.arguments] for call in message.tool_calls],
        ]
        for message in trajectory.messages
    ]
    return blake2b(json.dumps(messages, sort_keys=True).encode(), digest_size=16).digest()


def gist(trajectory: Trajectory) -> str:
    """Return what near duplicates are told by: what was asked, the calls with their arguments, the last
    answer. Results and reasoning are left out: they are long, and the same calls give the same results."""
    parts = [message.content or "" for message in trajectory.messages if message.role == "user"]
    calls = [call.function for message in trajectory.messages for call in message.tool_calls]
    parts.append(calls_text((call.name, call.arguments) for call in calls))
    said = [
        message.content for message in trajectory.messages if message.role == "assistant" and message.content
    ]
    return "\n".join([*parts, *said[-1:]])


def without_exact(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Keep the best of those with the same fingerprint."""
    kept = {one.fingerprint: one.id for one in _worst_first(candidates)}
    return [one for one in candidates if kept[one.fingerprint] == one.id]


def without_near(candidates: Sequence[Candidate], threshold: float) -> list[Candidate]:
    """Keep, best first, what is no near duplicate of anything that is kept already."""
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
