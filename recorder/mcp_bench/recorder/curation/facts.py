"""Rules that need only the stored facts of an episode, not its conversation."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import inf

from mcp_bench.recorder.curation.selection import Selection
from mcp_bench.recorder.isolation_levels import strength
from mcp_bench.recorder.leakage.held_out import PRIVATE
from mcp_bench.recorder.runs.reader import StoredEpisode
from mcp_bench.recorder.store.reviews import Reviews
from mcp_bench.recorder.taint import verified
from mcp_bench.servers.contracts import ALL_SPLITS
from mcp_bench.servers.errors import WrongUseError
from mcp_bench.servers.grading import Score

FORBIDDEN = "not_for_training"
"""Name of the rule about tasks that their benchmark withholds from training. No option switches it off."""
UNNAMED = "private"
"""Name of the rule that a log has episodes of the private split only if the split is named."""


@dataclass(frozen=True, slots=True)
class EpisodeRule:
    """A rule about one episode. `dropped` describes the episodes that it drops."""

    name: str
    dropped: str
    keeps: Callable[[StoredEpisode], bool]


def episode_rules(selection: Selection, *, for_reading: bool) -> Iterator[EpisodeRule]:
    """Yield the rules in the order in which they apply, those of options only if the options are set.

    Args:
        selection: What to choose.
        for_reading: Whether people will read the episodes: nothing is dropped then without an option.
    """
    chosen = selection
    if chosen.agents:
        yield EpisodeRule("other_agent", "by another agent", lambda e: e.agent in chosen.agents)
    if chosen.models:
        yield EpisodeRule("other_model", "by another model", lambda e: e.model in chosen.models)
    if chosen.benchmarks:
        yield EpisodeRule(
            "other_benchmark", "of another benchmark", lambda e: e.benchmark in chosen.benchmarks
        )
    if chosen.domains:
        yield EpisodeRule("other_domain", "of another domain", lambda e: e.domain in chosen.domains)
    if ALL_SPLITS not in chosen.splits:
        splits = ", ".join(chosen.splits)
        words = f"not of the split {splits} (--split all takes every split)"
        yield EpisodeRule("other_split", words, lambda e: e.split in chosen.splits)
    elif for_reading and PRIVATE not in chosen.splits:
        words = f"of the split {PRIVATE} (left out unless --split names it)"
        yield EpisodeRule(UNNAMED, words, lambda e: e.split != PRIVATE)
    if not for_reading:
        yield EpisodeRule(FORBIDDEN, "not for training (the benchmark forbids it)", lambda e: e.trainable)
        yield EpisodeRule("invalid", "invalid", lambda e: e.invalid is None)
        yield EpisodeRule("ungraded", "without a grade", lambda e: e.partial is not None)
    if chosen.isolation is not None:
        least = strength(chosen.isolation)
        yield EpisodeRule(
            "isolation_too_weak",
            f"isolated less strictly than {chosen.isolation}",
            lambda e: strength(e.isolation) >= least,
        )
    if not chosen.include_tainted and not for_reading:
        words = "tainted (--include-tainted keeps them)"
        yield EpisodeRule("tainted", words, lambda e: e.taint != "tainted")
    if chosen.clean:
        yield EpisodeRule("not_clean", "not known to be clean", lambda e: e.taint == "clean")
    if chosen.verified:
        words = "not verified (isolated, every probe passed, and clean)"
        yield EpisodeRule("not_verified", words, verified)
    yield EpisodeRule(
        "below_threshold",
        f"with a partial score below {chosen.least:g}",
        lambda e: (e.partial or 0.0) >= chosen.least,
    )
    if chosen.strict:
        yield EpisodeRule("not_strict", "not strictly solved", lambda e: bool(e.strict))
    if (value := chosen.min_score) is not None:
        yield EpisodeRule("low_score", f"without a measured score as good as {value:g}", _LeastScore(value))
    if (least_share := chosen.min_par) is not None:
        yield EpisodeRule(
            "below_par",
            f"without a measured score of {least_share:g} of the way to par",
            lambda e: _share_of_par(e) >= least_share,
        )
    if chosen.reviewed:
        good = {one.episode for one in Reviews().all().values() if one.verdict == "good"}
        yield EpisodeRule("not_reviewed", "not marked good by a person", lambda e: e.id in good)
    if (most := chosen.max_error_share) is not None:
        yield EpisodeRule(
            "too_many_errors",
            f"with a larger share of failed calls than {most:g}",
            lambda e: e.failed_calls / max(e.calls, 1) <= most,
        )


class _LeastScore:
    """Whether the score of an episode is at least as good as a value.

    All episodes must have measured the same thing, since the value has no unit of its own.
    """

    def __init__(self, value: float) -> None:
        self._value = value
        self._first: Score | None = None

    def __call__(self, episode: StoredEpisode) -> bool:
        score = episode.score
        if score is None:
            return False
        first = self._first = self._first or score
        if first.measure != score.measure:
            raise WrongUseError(
                f"--min-score {self._value:g} would apply to both {_words(first)} and {_words(score)}: "
                "choose one with --benchmark, or use --min-par, a share of the way to each task's par"
            )
        return score.merit >= score.model_copy(update={"value": self._value}).merit


def _share_of_par(episode: StoredEpisode) -> float:
    share = None if episode.score is None else episode.score.share_of_par
    return -inf if share is None else share


def _words(score: Score) -> str:
    unit = f" in {score.unit}" if score.unit else ""
    return f"{score.name!r}{unit} ({score.better} is better)"
