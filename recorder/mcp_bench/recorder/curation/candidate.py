"""What the rules know of an episode: a light summary, so that a large store fits into memory."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

from mcp_bench.recorder.leakage.similarity import Signature
from mcp_bench.recorder.scores.task_names import family
from mcp_bench.recorder.store.reader import StoredEpisode


@dataclass(slots=True)
class Candidate:
    """A valid, graded episode. The last four are known only where a rule that was asked for needs
    them."""

    run: Path
    id: str
    task: str
    """Benchmark and task."""
    family: str
    partial: float
    strict: bool
    calls: int
    failed_calls: int
    fingerprint: bytes = b""
    signature: Signature | None = None
    tokens: int = 0
    leaks: bool = False


def candidate(run: Path, episode: StoredEpisode) -> Candidate:
    """Return the summary of an episode of the run folder `run`; it must have a grade."""
    if episode.partial is None:
        raise ValueError(f"{episode.id} has no grade")
    return Candidate(
        run=run,
        id=episode.id,
        task=f"{episode.benchmark}/{episode.task}",
        family=f"{episode.benchmark}/{family(episode.task, episode.domain)}",
        partial=episode.partial,
        strict=bool(episode.strict),
        calls=episode.calls,
        failed_calls=episode.failed_calls,
    )


def quality(candidate: Candidate) -> tuple[bool, float, int, int, str]:
    """Sort key, best first: solved, the higher grade, fewer failing calls, fewer calls, the older one."""
    return (
        not candidate.strict,
        -candidate.partial,
        candidate.failed_calls,
        candidate.calls,
        candidate.id,
    )


def lot(seed: int, name: str) -> bytes:
    """Return a number as good as random that depends on the seed and the name alone: who sorts by it
    draws by lot, the same way on every machine and in whatever order names come."""
    return blake2b(f"{seed}/{name}".encode(), digest_size=8).digest()
