"""The selection: every option of `mcp-bench export` that decides which episodes it writes."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any

from mcp_bench.recorder.isolation_levels import LEVELS
from mcp_bench.recorder.option_fields import Share, option
from mcp_bench.recorder.runs.names import RUN_HELP, RUN_TAG_HELP
from mcp_bench.servers.errors import WrongUseError, suggestion

DUPLICATES = ("exact", "near")
REASONING = ("keep", "drop")
SECRETS = ("secrets", "emails")
ON_LEAK = ("refuse", "drop", "allow")
COHORTS = ("high", "low", "random")


@dataclass(frozen=True)
class Selection:
    """Which episodes to export, and which parts of them. None or an empty tuple switches a rule off.

    Raises:
        WrongUseError: a value is out of range or unknown, or an option that it needs is missing.
    """

    min_partial: Share | None = option(
        None,
        "Minimum partial score, the share of a task's assertions that hold. Default: 0.5; 0 with "
        "--cohort, --steps, --min-score or --min-par.",
    )
    strict: bool = option(False, "Keep only strictly solved episodes, by the benchmark's own definition.")
    min_score: float | None = option(
        None,
        "Keep only episodes whose measured score is at least as good as VALUE, in its own unit: "
        "at most VALUE where lower is better.",
        metavar="VALUE",
    )
    min_par: float | None = option(
        None,
        "Keep only episodes whose measured score is at least this share of the way from the "
        "task's baseline to its par; 1 is par.",
        metavar="SHARE",
    )
    reviewed: bool = option(False, "Keep only episodes that a person marked good in `mcp-bench view`.")
    splits: tuple[str, ...] = option(
        ("train",),
        "Split to export (repeatable; `all` for every split). Default: train.",
        name="split",
        metavar="SPLIT",
    )
    runs: tuple[str, ...] = option((), RUN_HELP, name="run", metavar="RUN")
    run_tags: tuple[str, ...] = option((), RUN_TAG_HELP, name="run_tag", metavar="TAG")
    agents: tuple[str, ...] = option(
        (), "Agent to export (repeatable). Default: all.", name="agent", metavar="AGENT"
    )
    models: tuple[str, ...] = option(
        (), "Model to export (repeatable). Default: all.", name="model", metavar="MODEL"
    )
    benchmarks: tuple[str, ...] = option(
        (), "Benchmark to export (repeatable). Default: all.", name="benchmark", metavar="BENCHMARK"
    )
    domains: tuple[str, ...] = option(
        (), "Domain to export (repeatable). Default: all.", name="domain", metavar="DOMAIN"
    )
    isolation: str | None = option(
        None,
        "Keep only episodes recorded at this isolation level or a stronger one: none, landlock, bwrap, uid.",
        name="require_isolation",
        metavar="LEVEL",
    )
    include_tainted: bool = option(
        False, "Include episodes whose agent looked for its grade. They are left out by default."
    )
    clean: bool = option(False, "Keep only episodes that were scanned and show no such attempt.")
    verified: bool = option(
        False, "Keep only clean episodes whose agent was isolated at a level that passed every probe."
    )
    max_error_share: Share | None = option(
        None, "Drop episodes in which more than this share of the calls failed.", metavar="SHARE"
    )
    dedupe: str | None = option(
        None,
        "Keep only the best of several episodes with the same conversation (exact), or with "
        "similar prompt, calls and answer (near).",
        metavar="exact|near",
    )
    similarity: float = option(0.8, "Similarity from which two episodes are near duplicates.")
    tokenizer: Path | None = option(
        None, "Tokenizer for --max-tokens: a tokenizer.json, or a model folder that contains one."
    )
    max_tokens: int | None = option(
        None, "Drop episodes with more than N tokens. Episodes are never truncated.", metavar="N"
    )
    best_partial: bool = option(
        False, "Keep only the attempts at each task whose partial score is the highest one of that task."
    )
    best: int | None = option(None, "Keep the K best attempts at each task.", metavar="K")
    max_per_task: int | None = option(
        None, "Keep at most N attempts at each task, sampled at random.", metavar="N"
    )
    max_per_family: int | None = option(
        None, "Keep at most N episodes of each family of tasks, sampled at random.", metavar="N"
    )
    cohort: str | None = option(
        None,
        "Keep the best, the worst or random attempts at each task. The three cohorts of one "
        "--size contain the same tasks.",
        metavar="high|low|random",
    )
    size: int | None = option(None, "Number of episodes in the cohort.", metavar="N")
    seed: int = option(0, "Seed of all random sampling.")
    reasoning: str = option("keep", "Keep or drop the agents' reasoning.", metavar="keep|drop")
    redact: tuple[str, ...] = option(
        (),
        "Replace keys, tokens and passwords, or e-mail addresses, by placeholders (repeatable).",
        metavar="secrets|emails",
    )
    on_leak: str = option(
        "refuse",
        "What to do if a row is, or resembles, a task of a held-out split: write nothing, drop "
        "the row, or write it anyway. Rows that leak into `private` are never written unless --split "
        "names it.",
        metavar="refuse|drop|allow",
    )

    @property
    def least(self) -> float:
        """The minimum partial score that applies."""
        if self.min_partial is not None:
            return self.min_partial
        by_other = (self.cohort, self.min_score, self.min_par)
        return 0.5 if all(value is None for value in by_other) else 0.0

    def __post_init__(self) -> None:
        for flag, number in (("--min-score", self.min_score), ("--min-par", self.min_par)):
            if number is not None and not isfinite(number):
                raise WrongUseError(f"{flag} is {number}: it must be a number")
        for name, value in (
            ("minimum partial score", self.min_partial),
            ("maximum share of failed calls", self.max_error_share),
        ):
            if value is not None and not 0 <= value <= 1:  # also refuses NaN
                raise WrongUseError(f"the {name} is {value}: it must be between 0 and 1")
        if not 0 < self.similarity <= 1:
            raise WrongUseError(f"--similarity is {self.similarity}: it must be greater than 0 and at most 1")
        for flag, count in (
            ("--max-tokens", self.max_tokens),
            ("--best", self.best),
            ("--max-per-task", self.max_per_task),
            ("--max-per-family", self.max_per_family),
            ("--size", self.size),
        ):
            if count is not None and count < 1:
                raise WrongUseError(f"{flag} is {count}: it must be 1 or more")
        for flag, word, known in (
            ("--require-isolation", self.isolation, LEVELS),
            ("--dedupe", self.dedupe, DUPLICATES),
            ("--reasoning", self.reasoning, REASONING),
            ("--cohort", self.cohort, COHORTS),
            ("--on-leak", self.on_leak, ON_LEAK),
            *(("--redact", word, SECRETS) for word in self.redact),
        ):
            if word is not None and word not in known:
                raise WrongUseError(f"{flag} {word} is not known{suggestion(word, known)}")
        for flag, is_set in (("--verified", self.verified), ("--clean", self.clean)):
            if is_set and self.include_tainted:
                raise WrongUseError(f"{flag} keeps no tainted episode: leave out --include-tainted")
        _together("--tokenizer", self.tokenizer, "--max-tokens", self.max_tokens)
        _together("--cohort", self.cohort, "--size", self.size)


def _together(one: str, value: Any, other: str, other_value: Any) -> None:
    if (value is None) != (other_value is None):
        given, missing = (one, other) if other_value is None else (other, one)
        raise WrongUseError(f"{given} has no effect without {missing}: give both")
