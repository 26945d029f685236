"""A skill library by a rule: the calls that all solved attempts at a family of tasks have in common.

Values that differ between tasks become words about where they come from. So a skill needs two tasks.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import islice
from typing import Any

import yaml

from mcp_bench.bridge.harness.folder import MOST_NAME, SKILL
from mcp_bench.bridge.memory.attempts import Attempt, Called

Aligned = Sequence[tuple[Attempt, Sequence[Called]]]
"""For each attempt, its calls of the common sequence."""


@dataclass(frozen=True)
class Procedure:
    """A skill that was found."""

    name: str
    description: str
    text: str
    episodes: tuple[str, ...]


def procedures(attempts: Sequence[Attempt], *, least: int = 2, most: int = 10) -> list[Procedure]:
    """Return a procedure for each family with a common sequence of two calls or more.

    Args:
        attempts: what was tried.
        least: solved tasks of the family.
        most: how many procedures; those of the most tasks come first.
    """
    by_family: dict[str, dict[str, Attempt]] = {}
    for one in attempts:
        if one.episode.strict:
            tasks = by_family.setdefault(one.family, {})
            known = tasks.get(one.task)
            if known is None or len(one.calls) < len(known.calls):
                tasks[one.task] = one
    ranked = sorted(by_family.items(), key=lambda item: (-len(item[1]), item[0]))
    made = (_procedure(name, list(tasks.values())) for name, tasks in ranked if len(tasks) >= least)
    found: dict[str, Procedure] = {}
    for skill in islice((one for one in made if one is not None), most):
        name, number = skill.name, 1
        while name in found:  # of families whose names differ by other characters
            number += 1
            name = f"{skill.name[: MOST_NAME - 4]}-{number}"
        found[name] = replace(skill, name=name)
    return list(found.values())


def with_skills(files: Mapping[str, str], found: Sequence[Procedure]) -> dict[str, str]:
    """Return a harness's files with skills; one with the same name is replaced."""
    made = {}
    for one in found:
        about = {
            "name": one.name,
            "description": one.description,
            "metadata": {"source": "rule", "episodes": " ".join(one.episodes)},
        }
        front = yaml.safe_dump(about, sort_keys=False, width=1000)
        made[f"skills/{one.name}/{SKILL}"] = f"---\n{front}---\n{one.text}\n"
    return {**files, **made}


def _procedure(family: str, attempts: Sequence[Attempt]) -> Procedure | None:
    done = [(one, [call for call in one.calls if not call.failed]) for one in attempts]
    common = reduce(longest_common, [[call.tool for call in calls] for _, calls in done])
    if len(common) < 2:
        return None
    aligned = [(attempt, _taken(calls, common)) for attempt, calls in done]
    steps = [f"{at + 1}. `{tool}`{_arguments(aligned, at)}" for at, tool in enumerate(common)]
    more = any(len(calls) > len(common) for _, calls in done)
    note = "\n\nTasks differ: some needed more calls between these." if more else ""
    tools = ", ".join(dict.fromkeys(common))
    return Procedure(
        re.sub(r"[^a-z0-9]+", "-", family.lower())[:MOST_NAME].strip("-") or "tasks",
        f"How tasks of the kind {family} were solved ({len(attempts)} of them), with {tools}."[:1000],
        "These calls solved all tasks of this kind that were seen:\n\n" + "\n".join(steps) + note,
        tuple(one.episode.id for one in attempts),
    )


def longest_common(one: Sequence[str], other: Sequence[str]) -> list[str]:
    """Return the longest common subsequence. Of several, it is always the same one."""
    # lengths[i][j]: of the first i and the first j elements. Numbers of 4 bytes, since lists can be long
    lengths = [array("I", [0]) * (len(other) + 1) for _ in range(len(one) + 1)]
    for i, mine in enumerate(one):
        above, row = lengths[i], lengths[i + 1]
        for j, theirs in enumerate(other):
            row[j + 1] = above[j] + 1 if mine == theirs else max(above[j + 1], row[j])
    found = []
    i, j = len(one), len(other)
    while i and j:
        if one[i - 1] == other[j - 1]:
            i, j = i - 1, j - 1
            found.append(one[i])
        elif lengths[i - 1][j] >= lengths[i][j - 1]:
            i -= 1
        else:
            j -= 1
    return found[::-1]


def _taken(calls: Sequence[Called], common: Sequence[str]) -> list[Called]:
    waiting = iter(calls)
    return [next(call for call in waiting if call.tool == tool) for tool in common]


def _arguments(aligned: Aligned, at: int) -> str:
    made = [calls[at].call.function.arguments for _, calls in aligned]
    names = list(dict.fromkeys(name for one in made for name in one))
    parts = []
    for name in names:
        optional = "" if all(name in one for one in made) else ", if needed"
        parts.append(f"`{name}` {_source(aligned, at, name)}{optional}")
    return f" with {'; '.join(parts)}" if parts else ""


def _source(aligned: Aligned, at: int, name: str) -> str:
    """Return where an argument's value comes from in all attempts that passed it."""
    passed = [
        (attempt, calls, calls[at].call.function.arguments[name])
        for attempt, calls in aligned
        if name in calls[at].call.function.arguments
    ]
    values = [value for _, _, value in passed]
    if len(passed) > 1 and all(value == values[0] for value in values):
        return f"always `{values[0]!r}`" if not isinstance(values[0], str) else f"always `{values[0]}`"
    for step in range(at):
        if all(_within(value, calls[step].result) for _, calls, value in passed):
            return f"from the result of step {step + 1}"
    if all(_within(value, attempt.episode.prompt) for attempt, _, value in passed):
        return "from the task"
    return "as the task needs it"


def _within(value: Any, text: str) -> bool:
    return len(str(value)) > 1 and str(value) in text
