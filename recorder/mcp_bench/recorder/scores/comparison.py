"""Compare two agents, models or runs on the same tasks: paired differences and flipped tasks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import isclose
from typing import Any, NoReturn

from mcp_bench.recorder.runs.names import RUN_PREFIX, run_id
from mcp_bench.recorder.runs.reader import StoredEpisode
from mcp_bench.recorder.scores.conditions import CONDITIONS, differing_conditions, values_of
from mcp_bench.recorder.scores.statistics import bootstrap, mean
from mcp_bench.recorder.scores.totals import TaskTotals, Totals, finished
from mcp_bench.servers.errors import UnknownNameError, WrongUseError
from mcp_bench.servers.grading import Measure

KINDS = ("run", "agent", "model")
"""The kinds of names that can select a side."""
EXACT = {**{kind: kind for kind in KINDS}, "tools": "tools_mode", "isolation": "isolation", "home": "home"}
"""What `agent=A,tools=all` can name, besides an agent's options, and the fields of an episode."""

FACTS = ("benchmark", "split", "domain")
"""The columns that a comparison can be grouped by."""


class Side:
    """Selects the episodes of one side of a comparison.

    A plain name can be a run, an agent or a model. `agent=A,model=M` is explicit. `effort=high` is an option
    of the agent, and `effort=` selects what was recorded without it. A run's id may be a unique prefix of it.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._kinds: set[str] = set()
        self._seen: dict[str, set[str]] = {}
        """The values of episodes, by what a side can name."""
        self._runs: set[str] = set()
        """The runs that were named."""
        parts = [part.partition("=") for part in name.split(",")]
        self._exact = {kind.strip(): value.strip() for kind, _, value in parts}
        if not all(equals for _, equals, _ in parts):
            self._exact = {}
        self._run = self._exact.get("run", name)
        self._options = self._exact.keys() - EXACT.keys()
        self._known: set[str] = set()

    def matches(self, episode: StoredEpisode) -> bool:
        values = {name: str(getattr(episode, field)) for name, field in EXACT.items()}
        values |= {name: str(episode.score_settings.values.get(name, "")) for name in self._options}
        for name, value in values.items():
            self._seen.setdefault(name, set()).add(value)
        if self._run.startswith(RUN_PREFIX) and values["run"].startswith(self._run):
            self._runs.add(values["run"])
            values["run"] = self._run
        kinds = {kind for kind in KINDS if values[kind] == self.name}
        self._kinds |= kinds
        if kinds or not self._exact:
            return bool(kinds)
        self._known.update(episode.score_settings.values if self._options else ())
        return all(values[kind] == value for kind, value in self._exact.items())

    def check(self, episodes: int) -> None:
        """Check that the name matched, and unambiguously. Call this after all episodes were matched.

        Raises:
            UnknownNameError: no episode has the name, an option, or its value; the text lists near matches.
            WrongUseError: no episode has all that is named, or the name is ambiguous, for example both an
                agent and a model, or several runs.
        """
        for name in () if self._kinds else sorted(self._options - self._known):
            raise UnknownNameError("option", name, {*EXACT, *self._known})
        if not episodes:
            self._refuse()
        if len(self._runs) > 1:
            run_id(self._run, self._runs)  # raises
        if len(self._kinds) > 1:
            kinds = [kind for kind in KINDS if kind in self._kinds]
            exact = " or ".join(f"{kind}={self.name}" for kind in kinds)
            raise WrongUseError(f"the name {self.name!r} is ambiguous ({', '.join(kinds)}): use {exact}")

    def _refuse(self) -> NoReturn:
        """Raise the error that says why no episode matched."""
        seen = {name: found - {"None", ""} for name, found in self._seen.items()}
        names = {one for kind in KINDS for one in seen.get(kind, ())}
        for name, value in self._exact.items() if seen else ():
            if value not in seen[name] and not (name == "run" and self._runs):
                raise UnknownNameError(name, value, seen[name])
        if seen and self._exact:
            raise WrongUseError(f"no episode has all of {self.name!r}")
        raise UnknownNameError("agent, model or run", self.name, names)


@dataclass
class _Pair:
    a: Totals = field(default_factory=Totals)
    b: Totals = field(default_factory=Totals)
    episodes: dict[str, list[str]] = field(default_factory=dict)
    """Ids of the valid graded episodes, by task."""


def compare(episodes: Iterable[StoredEpisode], a: str, b: str, by: Sequence[str]) -> dict[str, Any]:
    """Return `{"a": name, "b": name, "conditions": {...}, "rows": [...]}`, with a row for each group, sorted.

    `conditions` has for each side the different conditions of its episodes, each as an object; `versions`
    has the versions of each benchmark that has several.
    A row pairs the tasks for which both sides have a valid graded episode. Each such task counts
    once, with the mean of its attempts. Differences are B minus A, with a 95 % interval from a
    bootstrap over the pairs (None with fewer than two pairs). `invalid_as_0` covers all tasks that
    both sides tried and scores invalid episodes as 0. A task flips if one side solved it in more
    than half of its attempts and the other did not. `scores` has an entry for each thing that was measured
    (name, unit, direction), for the tasks whose attempts on both sides all measured it. Its `flips` are the
    tasks on which B is better or worse, those with the largest difference first.

    Raises:
        UnknownNameError: a side has no episode.
        WrongUseError: a side's name is ambiguous, or an episode belongs to both sides.
    """
    sides = Side(a), Side(b)
    counts = [0, 0]
    met: tuple[dict[tuple[Any, ...], None], ...] = ({}, {})
    pairs: dict[tuple[Any, ...], _Pair] = {}
    versions: dict[str, set[str]] = {}
    for episode in filter(finished, episodes):
        matched = [side.matches(episode) for side in sides]
        if all(matched):
            raise WrongUseError(
                f"cannot compare {a!r} and {b!r}: episode {episode.id} (agent {episode.agent}, model "
                f"{episode.model}, run {episode.run}) is on both sides. Separate them with agent=A,model=M "
                "or by an option of the agent"
            )
        if any(matched):
            counts[matched.index(True)] += 1
            met[matched.index(True)][values_of(episode, CONDITIONS)] = None
            versions.setdefault(episode.benchmark, set()).add(str(episode.benchmark_version))
            pair = pairs.setdefault(tuple(getattr(episode, name) for name in by), _Pair())
            (pair.a if matched[0] else pair.b).add(episode)
            if episode.invalid is None and episode.partial is not None:
                pair.episodes.setdefault(f"{episode.benchmark}/{episode.task}", []).append(episode.id)
    for side, count in zip(sides, counts, strict=True):
        side.check(count)
    keys = sorted(pairs, key=lambda key: [str(part) for part in key])
    return {
        "a": a,
        "b": b,
        "conditions": {
            side: [dict(zip(CONDITIONS, found, strict=True)) for found in met[at]]
            for at, side in enumerate("ab")
        },
        "versions": {name: sorted(found) for name, found in versions.items() if len(found) > 1},
        "rows": [{**dict(zip(by, key, strict=True)), **_row(pairs[key])} for key in keys],
    }


def compare_alike(episodes: Iterable[StoredEpisode], a: str, b: str, by: Sequence[str]) -> dict[str, Any]:
    """Return what `compare` returns, if all episodes of a side were recorded under the same conditions.

    Names in `by` that a comparison cannot be grouped by are left out.

    Raises:
        UnknownNameError: as for `compare`.
        WrongUseError: as for `compare`, or a side mixes conditions.
    """
    found = compare(episodes, a, b, by=[name for name in by if name in FACTS])
    for side in "ab":
        conditions = found["conditions"][side]
        if len({tuple(one[name] or "" for name in CONDITIONS) for one in conditions}) > 1:
            # an option of the agent can have the name of a setting, which it hides
            differ = [one for one in differing_conditions(conditions) if one] or ["report --json has them"]
            raise WrongUseError(
                f"the side {found[side]!r} has episodes under different conditions ({'; '.join(differ)}). "
                "Name a run, or add what differs to the side, such as tools=mcp-only, max_calls=20, "
                "max_calls= (for none), or an option of the agent"
            )
    return found


def how_conditions_differ(found: dict[str, Any]) -> str:
    """Return how the conditions of the sides in a result of `compare_alike` differ; empty if they do not."""
    both = [*found["conditions"]["a"][:1], *found["conditions"]["b"][:1]]
    differ = differing_conditions(both)
    said = [f"The conditions differ: {' against '.join(differ)}"] if any(differ) else []
    said += [
        f"{name} was recorded in versions {' and '.join(versions)}: their tasks or grades may differ"
        for name, versions in found["versions"].items()
    ]
    return ". ".join(said)


def _row(pair: _Pair) -> dict[str, Any]:
    ours, theirs = pair.a.graded(), pair.b.graded()
    common = sorted(ours.keys() & theirs.keys())
    valid = [(_means(ours[task]), _means(theirs[task])) for task in common]
    tried = [
        (_means(pair.a.tasks[task], invalid=True), _means(pair.b.tasks[task], invalid=True))
        for task in sorted(pair.a.tasks.keys() & pair.b.tasks.keys())
        if _attempts(pair.a.tasks[task]) and _attempts(pair.b.tasks[task])
    ]
    flips: dict[str, list[dict[str, Any]]] = {"fail_to_pass": [], "pass_to_fail": []}
    for task, ((_, before), (_, after)) in zip(common, valid, strict=True):
        if (before > 0.5) != (after > 0.5):
            flips["fail_to_pass" if after > before else "pass_to_fail"].append(
                {
                    "task": task,
                    "a": _outcome(ours[task]),
                    "b": _outcome(theirs[task]),
                    "episodes": pair.episodes[task],
                }
            )
    return {
        "sides": {
            "a": {**pair.a.counts(), "tasks": len(ours)},
            "b": {**pair.b.counts(), "tasks": len(theirs)},
        },
        **_differences(valid),
        "scores": _scores([(task, ours[task], theirs[task]) for task in common], pair.episodes),
        "invalid_as_0": _differences(tried),
        "flips": flips,
    }


def _scores(
    pairs: Sequence[tuple[str, TaskTotals, TaskTotals]], episodes: Mapping[str, list[str]]
) -> list[dict[str, Any]]:
    """Return the paired differences of measured scores. `better` counts tasks in the measure's direction."""
    by_measure: dict[Measure, list[dict[str, Any]]] = {}
    for task, a, b in pairs:
        if a.measure is not None and a.measure == b.measure:
            means = {"a": a.score / a.episodes, "b": b.score / b.episodes}
            by_measure.setdefault(a.measure, []).append({"task": task, **means, "episodes": episodes[task]})
    found = []
    for (name, unit, better), tasks in sorted(by_measure.items()):
        differences = [_difference(task) for task in tasks]
        intervals = bootstrap([(difference,) for difference in differences], [1] * len(tasks))
        sign = 1 if better == "higher" else -1
        # the largest first; equally large ones by name
        ranked = sorted(tasks, key=lambda task: -abs(_difference(task)))
        flips = {
            "better": [task for task in ranked if sign * _difference(task) > 0],
            "worse": [task for task in ranked if sign * _difference(task) < 0],
        }
        found.append(
            {
                "name": name,
                "unit": unit,
                "better": better,
                "common_tasks": len(tasks),
                "a": mean(sum(task["a"] for task in tasks), len(tasks)),
                "b": mean(sum(task["b"] for task in tasks), len(tasks)),
                "difference": mean(sum(differences), len(tasks)),
                "difference_ci": list(intervals[0]) if intervals else None,
                "b_better": len(flips["better"]),
                "b_worse": len(flips["worse"]),
                "flips": flips,
            }
        )
    return found


def _difference(task: Mapping[str, Any]) -> float:
    """Return B - A of a task's measured scores. The same ones in another order have sums 1e-16 apart."""
    a, b = task["a"], task["b"]
    return 0.0 if isclose(a, b, rel_tol=1e-12) else float(b - a)


def _means(task: TaskTotals, *, invalid: bool = False) -> tuple[float, float]:
    attempts = _attempts(task) if invalid else task.episodes
    return task.partial / attempts, task.strict / attempts


def _attempts(task: TaskTotals) -> int:
    return task.episodes + task.invalid


def _outcome(task: TaskTotals) -> dict[str, Any]:
    return {"solved": task.strict, "episodes": task.episodes, "partial": task.partial / task.episodes}


def _differences(pairs: Sequence[tuple[tuple[float, float], tuple[float, float]]]) -> dict[str, Any]:
    found: dict[str, Any] = {"common_tasks": len(pairs)}
    intervals = bootstrap(
        [(b[0] - a[0], b[1] - a[1]) for a, b in pairs],
        [1] * len(pairs),
    )
    for at, score in enumerate(("partial", "strict")):
        of_a, of_b = (mean(sum(pair[side][at] for pair in pairs), len(pairs)) for side in (0, 1))
        found[score] = {
            "a": of_a,
            "b": of_b,
            # rounded as the interval is: the same credits of other tasks would leave 1e-16
            "difference": None if of_a is None or of_b is None else round(of_b - of_a, 12),
            "difference_ci": intervals and list(intervals[at]),
        }
    return found
