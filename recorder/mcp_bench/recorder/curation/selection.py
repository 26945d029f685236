"""What a user asked for: every option of `mcp-bench export` that decides what is written."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mcp_bench.servers.errors import WrongUseError, suggestion

LEVELS = ("none", "landlock", "bwrap", "uid")
"""How an agent was kept apart from the referee's files, weakest first."""

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

    min_partial: float = field(
        default=0.5,
        metadata={
            "help": "Least share of a task's assertions that must hold. Default: 0.5, with --cohort 0.",
            "bounds": (0, 1),
        },
    )
    strict: bool = field(
        default=False, metadata={"help": "Keep only what the benchmark itself calls solved."}
    )
    splits: tuple[str, ...] = field(
        default=("train",),
        metadata={
            "help": "Split to take (repeatable; `all` takes every one). Default: train.",
            "name": "split",
            "metavar": "SPLIT",
        },
    )
    runs: tuple[str, ...] = field(
        default=(),
        metadata={"help": "Run to take (repeatable; default: all).", "name": "run", "metavar": "RUN"},
    )
    agents: tuple[str, ...] = field(
        default=(), metadata={"help": "Agent to take (repeatable).", "name": "agent", "metavar": "AGENT"}
    )
    models: tuple[str, ...] = field(
        default=(), metadata={"help": "Model to take (repeatable).", "name": "model", "metavar": "MODEL"}
    )
    benchmarks: tuple[str, ...] = field(
        default=(),
        metadata={"help": "Benchmark to take (repeatable).", "name": "benchmark", "metavar": "BENCHMARK"},
    )
    domains: tuple[str, ...] = field(
        default=(), metadata={"help": "Domain to take (repeatable).", "name": "domain", "metavar": "DOMAIN"}
    )
    isolation: str | None = field(
        default=None,
        metadata={
            "help": "Keep only what was recorded at this level of isolation or a stronger one: none, "
            "landlock, bwrap, uid.",
            "name": "require_isolation",
            "metavar": "LEVEL",
        },
    )
    include_tainted: bool = field(
        default=False,
        metadata={
            "help": "Take episodes, too, whose agents looked for their grades; they are left out otherwise."
        },
    )
    clean: bool = field(
        default=False, metadata={"help": "Keep only what was scanned, and shows no attempt at that."}
    )
    verified: bool = field(
        default=False,
        metadata={
            "help": "Keep only clean episodes whose agent was isolated by a level that passed every probe."
        },
    )
    max_error_share: float | None = field(
        default=None,
        metadata={
            "help": "Drop an episode in which more than this share of the calls failed.",
            "bounds": (0, 1),
            "metavar": "SHARE",
        },
    )
    dedupe: str | None = field(
        default=None,
        metadata={
            "help": "Keep the best of those with the same conversation, or with much the same calls and "
            "answer.",
            "metavar": "exact|near",
        },
    )
    similarity: float = field(
        default=0.8,
        metadata={"help": "From which on two episodes are near duplicates.", "show_default": True},
    )
    tokenizer: Path | None = field(
        default=None, metadata={"help": "tokenizer.json, or a model's folder that has one, for --max-tokens."}
    )
    max_tokens: int | None = field(
        default=None, metadata={"help": "Drop longer episodes; none is ever cut.", "metavar": "N"}
    )
    best: int | None = field(
        default=None, metadata={"help": "Keep the K best attempts at each task.", "metavar": "K"}
    )
    max_per_task: int | None = field(
        default=None, metadata={"help": "Keep at most N attempts at a task, drawn by lot.", "metavar": "N"}
    )
    max_per_family: int | None = field(
        default=None,
        metadata={"help": "Keep at most N episodes of a family of tasks, drawn by lot.", "metavar": "N"},
    )
    cohort: str | None = field(
        default=None,
        metadata={
            "help": "Of each task, keep the best, the worst or any attempts; the three cohorts of one "
            "--size have the same tasks.",
            "metavar": "high|low|random",
        },
    )
    size: int | None = field(default=None, metadata={"help": "Rows of the cohort.", "metavar": "N"})
    seed: int = field(default=0, metadata={"help": "Seed of what is drawn by lot.", "show_default": True})
    reasoning: str = field(
        default="keep",
        metadata={
            "help": "What becomes of the agents' reasoning.",
            "show_default": True,
            "metavar": "keep|drop",
        },
    )
    redact: tuple[str, ...] = field(
        default=(),
        metadata={
            "help": "Put placeholders for keys, tokens and passwords, or for e-mail addresses (repeatable).",
            "metavar": "secrets|emails",
        },
    )
    on_leak: str = field(
        default="refuse",
        metadata={
            "help": "What to do where a row is, or is much like, a task of a held-out split: write "
            "nothing, leave it out, or write it all the same; what leaks into `private` is never "
            "written unless --split names it.",
            "show_default": True,
            "metavar": "refuse|drop|allow",
        },
    )

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
