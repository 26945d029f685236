"""The summary of an episode that the rules work on. It is small, so a large store fits into memory."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

from mcp_bench.recorder.leakage.similarity import Signature
from mcp_bench.recorder.runs.reader import StoredEpisode
from mcp_bench.recorder.scores.task_names import family


@dataclass(slots=True)
class Candidate:
    """A valid, graded episode; in a log, any episode. The last four fields are filled only if a rule needs
    them."""

    run: Path
    id: str
    task: str
    """`benchmark/task`."""
    family: str
    agent: str
    model: str | None
    partial: float
    strict: bool
    calls: int
    failed_calls: int
    merit: float | None = None
    """What its grade measured, the higher the better; comparable within a task."""
    fingerprint: bytes = b""
    signature: Signature | None = None
    tokens: int = 0
    leaks: bool = False


def candidate(run: Path, episode: StoredEpisode) -> Candidate:
    """Return the summary of an episode.

    Args:
        run: The folder of the run.
        episode: The episode. One without a grade counts as not solved at all.
    """
    return Candidate(
        run=run,
        id=episode.id,
        task=f"{episode.benchmark}/{episode.task}",
        family=f"{episode.benchmark}/{family(episode.task, episode.domain)}",
        agent=episode.agent,
        model=episode.model,
        partial=episode.partial or 0.0,
        strict=bool(episode.strict),
        calls=episode.calls,
        failed_calls=episode.failed_calls,
        merit=None if episode.score is None else episode.score.merit,
    )


def worth(candidate: Candidate) -> tuple[bool, float, bool, float]:
    """Return a sort key, best first, of the grade: solved, higher partial score, better measured score."""
    merit = candidate.merit
    return not candidate.strict, -candidate.partial, merit is None, -(merit or 0.0)


def quality(candidate: Candidate) -> tuple[tuple[bool, float, bool, float], int, int, str]:
    """Return a sort key, best first: better grade, fewer failed calls, fewer calls, older."""
    return (
        worth(candidate),
        candidate.failed_calls,
        candidate.calls,
        candidate.id,
    )


def random_key(seed: int, name: str) -> bytes:
    """Return a pseudo-random sort key that depends on nothing but the seed and the name.

    Sorting by it shuffles, with the same result on every machine and for any order of the input.
    """
    return blake2b(f"{seed}/{name}".encode(), digest_size=8).digest()
