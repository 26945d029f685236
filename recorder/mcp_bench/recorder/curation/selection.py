"""What a user asked for: every option of `mcp-bench export` that decides what is written."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mcp_bench.recorder.isolation_levels import LEVELS
from mcp_bench.servers.errors import WrongUseError, suggestion

DUPLICATES = ("exact", "near")
REASONING = ("keep", "drop")
SECRETS = ("secrets", "emails")
ON_LEAK = ("refuse", "drop", "allow")
COHORTS = ("high", "low", "random")


@dataclass(frozen=True)
class Selection:
    """Which episodes, and what of them. Empty tuples and None stand for a rule that is not asked for.

    Raises:
        WrongUseError: a value makes no sense, or lacks the one that it goes with.
    """

    runs: tuple[str, ...] = ()
    agents: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    benchmarks: tuple[str, ...] = ()
    domains: tuple[str, ...] = ()
    splits: tuple[str, ...] = ("train",)
    min_partial: float = 0.5
    strict: bool = False
    isolation: str | None = None
    """Least level."""
    verified: bool = False
    clean: bool = False
    include_tainted: bool = False
    max_error_share: float | None = None
    """Largest share of the calls that may have failed."""
    dedupe: str | None = None
    similarity: float = 0.8
    """From which on two episodes are near duplicates (Jaccard, 0 to 1)."""
    tokenizer: Path | None = None
    max_tokens: int | None = None
    best: int | None = None
    max_per_task: int | None = None
    max_per_family: int | None = None
    cohort: str | None = None
    size: int | None = None
    """Rows of the cohort."""
    seed: int = 0
    """Of whatever is drawn by lot."""
    reasoning: str = "keep"
    redact: tuple[str, ...] = ()
    on_leak: str = "refuse"
    """What becomes of rows that are, or are like, tasks of a held-out split that was not asked for."""

    def __post_init__(self) -> None:
        for name, value in (
            ("least partial score", self.min_partial),
            ("largest share of failing calls", self.max_error_share),
        ):
            if value is not None and not 0 <= value <= 1:  # not a number, too: it would compare with nothing
                raise WrongUseError(f"the {name} is {value}: it must lie in 0 to 1")
        if not 0 < self.similarity <= 1:
            raise WrongUseError(
                f"the similarity of near duplicates is {self.similarity}: it must be above 0, at most 1"
            )
        for option, count in (
            ("--max-tokens", self.max_tokens),
            ("--best", self.best),
            ("--max-per-task", self.max_per_task),
            ("--max-per-family", self.max_per_family),
            ("--size", self.size),
        ):
            if count is not None and count < 1:
                raise WrongUseError(f"{option} is {count}: it must be 1 or more")
        for option, word, known in (
            ("--require-isolation", self.isolation, LEVELS),
            ("--dedupe", self.dedupe, DUPLICATES),
            ("--reasoning", self.reasoning, REASONING),
            ("--cohort", self.cohort, COHORTS),
            ("--on-leak", self.on_leak, ON_LEAK),
            *(("--redact", word, SECRETS) for word in self.redact),
        ):
            if word is not None and word not in known:
                raise WrongUseError(f"{option} {word} is not known{suggestion(word, known)}")
        for option, asked in (("--verified", self.verified), ("--clean", self.clean)):
            if asked and self.include_tainted:
                raise WrongUseError(f"{option} keeps no tainted episode: leave out --include-tainted")
        _together("--tokenizer", self.tokenizer, "--max-tokens", self.max_tokens)
        _together("--cohort", self.cohort, "--size", self.size)


def _together(one: str, value: Any, other: str, other_value: Any) -> None:
    if (value is None) != (other_value is None):
        given, missing = (one, other) if other_value is None else (other, one)
        raise WrongUseError(f"{given} says nothing without {missing}: give both")
