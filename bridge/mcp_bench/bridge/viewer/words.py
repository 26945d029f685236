"""What the facts of an episode mean, in words for a person who reads them for the first time."""

from __future__ import annotations

from typing import Any

from mcp_bench.recorder.runs.reader import StoredEpisode

ISOLATION = {
    "none": "The agent ran as you, and could have read your files, recordings and grades among them.",
    "in-process": "The agent was a part of the recorder. It had the world's tools, and no others.",
    "landlock": "The kernel (Landlock) kept the agent away from grades, recordings and other episodes.",
    "bwrap": "A sandbox (bubblewrap) kept the agent away from grades, recordings and other episodes.",
    "uid": "Another user and a sandbox kept the agent away from grades, recordings and other episodes.",
}
TAINT = {
    "clean": "Nothing that the agent did looks for its grade, and all of it was observed.",
    "tainted": "There is evidence that the agent looked for its grade.",
    "unknown": "Nothing found, but not everything that the agent did was observed.",
}
ENDS = {
    "agent_exit": "the agent ended",
    "timeout": "the time limit ended it",
    "max_calls": "the call limit ended it",
    "crash": "the agent crashed",
    "cancelled": "it was stopped",
    "world_over": "the world was over",
}
INVALID = {
    "referee_died": "the referee died before the grade was stored",
    "endpoint_error": "the model endpoint failed",
    "login_missing": "the agent has no login",
    "interrupted": "the operator stopped the run",
}


CUT_OFF = "cut off"


def verdict(episode: StoredEpisode, cut_off: bool) -> str:
    """Return the result of an episode in a word or two.

    Args:
        episode: an attempt.
        cut_off: whether nobody records its run any more, so that one without an end never gets one.
    """
    if episode.invalid is not None:
        return "invalid"
    if episode.partial is None:
        if episode.ended_us is not None:
            return "ungraded"
        return CUT_OFF if cut_off else "running"
    if episode.strict:
        return "solved"
    return "partly" if episode.partial > 0 else "failed"


def ended(episode: StoredEpisode) -> str:
    if episode.ended_us is None:
        return "not ended"
    return ENDS.get(episode.termination or "", episode.termination or "ended")


def usage(found: dict[str, Any] | None) -> list[tuple[str, str]]:
    """Return the usage of an episode as names and values."""
    if not found:
        return []
    units = {
        "input_tokens": ("tokens in", "{:,}"),
        "cached_tokens": ("of them cached", "{:,}"),
        "output_tokens": ("tokens out", "{:,}"),
        "model_calls": ("model calls", "{:,}"),
        "cost_usd": ("cost", "${:.4f}"),
    }
    return [
        (name, form.format(found[key]))
        for key, (name, form) in units.items()
        if isinstance(found.get(key), int | float)
    ]
