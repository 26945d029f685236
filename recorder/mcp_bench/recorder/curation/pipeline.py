"""The rules in order, and the funnel: episodes in, episodes dropped by each rule, episodes out.

One pass over the store applies the rules about facts and keeps a small summary of each episode that passes.
If a rule needs conversations, a second pass reads them and keeps a hash, a signature or a count of each.
Rules about the whole set come last, so an episode that another rule drops never takes the place of a good
one. Memory holds one conversation at a time.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any, TypeVar

from mcp_bench.recorder.conversations.load import trajectory
from mcp_bench.recorder.curation import caps, duplicates
from mcp_bench.recorder.curation.candidate import Candidate, candidate
from mcp_bench.recorder.curation.cohort import cohort
from mcp_bench.recorder.curation.facts import FORBIDDEN, UNNAMED, EpisodeRule, episode_rules
from mcp_bench.recorder.curation.parallel import cores, in_order
from mcp_bench.recorder.curation.reasoning import without_reasoning
from mcp_bench.recorder.curation.redaction import redact
from mcp_bench.recorder.curation.selection import Selection
from mcp_bench.recorder.curation.tokens import TokenCounter
from mcp_bench.recorder.leakage.guard import Guard, guarded
from mcp_bench.recorder.leakage.similarity import Signature, signature
from mcp_bench.recorder.runs.find import check_no_copy
from mcp_bench.recorder.runs.reader import RunReader, StoredEpisode
from mcp_bench.recorder.trajectory import Trajectory
from mcp_bench.servers.contracts import ALL_SPLITS
from mcp_bench.servers.errors import UnknownNameError
from mcp_bench.servers.home import VARIABLE, home

MANY = 400
"""Number of conversations from which a second process pays off. Starting one takes a second."""
MOST_JOBS = 8
PART = 64
"""Conversations in a part, the unit of work of a process."""

Found = TypeVar("Found")
Look = Callable[["Curation", StoredEpisode, Trajectory], Found]
_Place = tuple[Path, str]
"""The folder of a run and the id of an episode."""


@dataclass(frozen=True, slots=True)
class SetRule:
    """A rule about all remaining episodes. `dropped` describes the episodes that it drops."""

    name: str
    dropped: str
    keep: Callable[[Sequence[Candidate]], list[Candidate]]


class Curation:
    """Applies a selection to a store."""

    def __init__(self, selection: Selection, jobs: int | None = None, *, for_reading: bool = False) -> None:
        """Prepare the rules.

        Args:
            selection: What to choose.
            jobs: Processes that read conversations. By default one for each core, at most `MOST_JOBS`, if
                there are `MANY` conversations or more.
            for_reading: Whether to keep invalid, ungraded and tainted episodes, for a log.

        Raises:
            MissingDependencyError: the tokenizer needs a package that is not installed.
            WrongUseError: the tokenizer cannot be loaded.
        """
        self.selection = selection
        self._jobs = jobs
        self.guard = Guard(guarded(selection.splits, allow=selection.on_leak == "allow"))
        self._counter = None if selection.tokenizer is None else TokenCounter(selection.tokenizer)
        self._episode_rules = list(episode_rules(selection, for_reading=for_reading))
        self._set_rules = list(self._rules_of_sets())
        self._rules: list[EpisodeRule | SetRule] = [*self._episode_rules, *self._set_rules]
        self.rows_in = self.rows_out = 0
        self.dropped = {rule.name: 0 for rule in self._rules}
        self.left_out: dict[str, dict[str, list[str]]] = {}
        """The episodes that were dropped, by run and rule."""

    def choose(self, paths: Sequence[Path]) -> list[Candidate]:
        """Choose episodes of the runs at `paths`, and count the funnel. The order of the store is kept.

        Raises:
            StorageError: a run cannot be read, or is a copy of another one.
            UnknownNameError: no episode has an agent, model, benchmark, domain or split of that name.
            WrongUseError: a cohort is larger than the data allows.
        """
        left = self._by_facts(paths)
        if self._set_rules and self._needs_content():
            self._read(left)
        for rule in self._set_rules:
            kept = rule.keep(left)
            self.dropped[rule.name] = len(left) - len(kept)
            ids = {one.id for one in kept}
            for one in left:
                if one.id not in ids:
                    self._leave_out(one.run.name, rule.name, one.id)
            left = kept
        self.rows_out = len(left)
        return left

    def read(self, chosen: Sequence[Candidate]) -> Generator[tuple[Candidate, StoredEpisode, Trajectory]]:
        """Yield the conversations one at a time, without reasoning if the selection says so.

        They have their secrets: leaks are found and calls are matched by their texts. See `redacted`.
        A run is open in between. Close the generator: if an error keeps it alive, another thread might, and
        SQLite refuses that.
        """
        places = [(one.run, one.id) for one in chosen]
        with closing(self._conversations(places)) as read:
            for one, found in zip(chosen, read, strict=True):
                yield one, *found

    def each(self, chosen: Sequence[Candidate], look: Look[Found]) -> Generator[Found]:
        """Yield what `look` returns for each conversation, in order. As in `read`, it has its secrets.

        Several processes do the work if there are many conversations. `look` and its results are pickled.
        """
        jobs = self._jobs
        if jobs is None:
            jobs = min(cores(), MOST_JOBS) if len(chosen) >= MANY else 1
        here = partial(self._looked, look)
        with closing(
            in_order(_parts(chosen), here, partial(_elsewhere, home(), self.selection, look), jobs)
        ) as made:
            for found, unchecked in made:
                self.guard.unchecked.update(unchecked)
                yield found

    def redacted(self, *conversations: Trajectory) -> list[Trajectory]:
        """Return conversations of one row with placeholders as the selection says, the same ones in all."""
        return redact(conversations, self.selection.redact)

    def funnel(self) -> dict[str, Any]:
        """Return the counts, with the rules in the order in which they apply."""
        return {"rows_in": self.rows_in, "dropped": dict(self.dropped), "rows_out": self.rows_out}

    def words(self) -> dict[str, str]:
        """Return a description of the episodes that each rule drops."""
        return {rule.name: rule.dropped for rule in self._rules}

    @property
    def tokenizer_sha256(self) -> str | None:
        return None if self._counter is None else self._counter.sha256

    def _by_facts(self, paths: Sequence[Path]) -> list[Candidate]:
        names = _Names(self.selection)
        left: list[Candidate] = []
        for path in paths:
            with RunReader(path) as reader:
                for episode in reader.episodes():
                    check_no_copy(path, episode.run)
                    self.rows_in += 1
                    names.note(episode)
                    rule = _dropped_by(self._episode_rules, episode)
                    if rule is None:
                        left.append(candidate(path, episode))
                    else:
                        self.dropped[rule.name] += 1
                        self._leave_out(path.name, rule.name, episode.id)
        names.check()
        for rare in (FORBIDDEN, UNNAMED):  # the funnel has these rules only if there are such episodes
            if not self.dropped.get(rare, 1):
                del self.dropped[rare]
        return left

    def _leave_out(self, run: str, rule: str, episode: str) -> None:
        self.left_out.setdefault(run, {}).setdefault(rule, []).append(episode)

    def _rules_of_sets(self) -> Iterator[SetRule]:
        chosen = self.selection
        if chosen.on_leak == "drop":
            yield SetRule(
                "leak",
                "similar to a held-out task",
                lambda left: [one for one in left if not one.leaks],
            )
        if chosen.dedupe == "exact":
            yield SetRule(
                "exact_duplicate", "with the same conversation as a better one", duplicates.without_exact
            )
        if chosen.dedupe == "near":
            yield SetRule(
                "near_duplicate",
                "near duplicates of a better one",
                lambda left: duplicates.without_near(left, chosen.similarity),
            )
        if (most := chosen.max_tokens) is not None:
            yield SetRule(
                "too_many_tokens",
                f"longer than {most} tokens",
                lambda left: [one for one in left if one.tokens <= most],
            )
        if chosen.best_partial:
            yield SetRule(
                "not_best_partial",
                "with a lower partial score than another attempt at their task",
                caps.best_partial,
            )
        if (count := chosen.best) is not None:
            yield SetRule(
                "not_best",
                f"not among the {count} best attempts at their task",
                lambda left: caps.best(left, count),
            )
        if (of_task := chosen.max_per_task) is not None:
            yield SetRule(
                "over_task_cap",
                f"over the limit of {of_task} for a task",
                lambda left: caps.per_task(left, of_task, chosen.seed),
            )
        if (of_family := chosen.max_per_family) is not None:
            yield SetRule(
                "over_family_cap",
                f"over the limit of {of_family} for a family",
                lambda left: caps.per_family(left, of_family, chosen.seed),
            )
        if (which := chosen.cohort) is not None and (size := chosen.size) is not None:
            yield SetRule(
                "not_in_cohort",
                f"not in the cohort ({which})",
                lambda left: cohort(left, which, size, chosen.seed),
            )

    def _needs_content(self) -> bool:
        chosen = self.selection
        return chosen.dedupe is not None or chosen.on_leak == "drop" or self._counter is not None

    def _read(self, candidates: Sequence[Candidate]) -> None:
        with closing(self.each(candidates, Curation._content)) as made:
            for one, content in zip(candidates, made, strict=True):
                one.leaks, one.fingerprint, one.signature, one.tokens = content

    def _content(
        self, episode: StoredEpisode, conversation: Trajectory
    ) -> tuple[bool, bytes, Signature | None, int]:
        """Return the facts about a conversation that rules about sets need."""
        chosen, [shown] = self.selection, self.redacted(conversation)
        return (
            chosen.on_leak == "drop" and self.guard.leak(episode, conversation) is not None,
            duplicates.fingerprint(shown) if chosen.dedupe == "exact" else b"",
            signature(duplicates.gist(shown)) if chosen.dedupe == "near" else None,
            0 if self._counter is None else self._counter.count(shown),
        )

    def _looked(self, look: Look[Found], part: Sequence[_Place]) -> Iterator[tuple[Found, dict[str, str]]]:
        with closing(self._conversations(part)) as read:
            for episode, conversation in read:
                yield look(self, episode, conversation), self.guard.unchecked

    def _conversations(self, places: Sequence[_Place]) -> Generator[tuple[StoredEpisode, Trajectory]]:
        for run, group in groupby(places, key=lambda place: place[0]):
            with RunReader(run) as reader:
                for _, name in group:
                    episode = reader.episode(name)
                    conversation = trajectory(reader, episode)
                    if self.selection.reasoning == "drop":
                        conversation = without_reasoning(conversation)
                    yield episode, conversation


def _parts(chosen: Sequence[Candidate]) -> list[list[_Place]]:
    places = [(one.run, one.id) for one in chosen]
    return [places[at : at + PART] for at in range(0, len(places), PART)]


def _elsewhere(
    of: Path, selection: Selection, look: Look[Found]
) -> Callable[[Sequence[_Place]], Iterator[tuple[Found, dict[str, str]]]]:
    os.environ[VARIABLE] = str(of)  # this process has no other work
    return partial(Curation(selection)._looked, look)


class _Names:
    """Checks the names in a selection against those in the store."""

    def __init__(self, selection: Selection) -> None:
        self._requested = {
            "agent": selection.agents,
            "model": selection.models,
            "benchmark": selection.benchmarks,
            "domain": selection.domains,
            "split": selection.splits,
        }
        self._known: dict[str, set[str]] = {kind: set() for kind in self._requested}
        self._known["split"] = {"train", ALL_SPLITS}
        self._any = False

    def note(self, episode: StoredEpisode) -> None:
        self._any = True
        for kind, known in self._known.items():
            if (name := getattr(episode, kind)) is not None:
                known.add(name)

    def check(self) -> None:
        for kind, names in self._requested.items():
            for name in names:
                if self._any and name not in self._known[kind]:
                    raise UnknownNameError(f"{kind} of recordings", name, self._known[kind])


def _dropped_by(rules: Sequence[EpisodeRule], episode: StoredEpisode) -> EpisodeRule | None:
    return next((rule for rule in rules if not rule.keeps(episode)), None)
