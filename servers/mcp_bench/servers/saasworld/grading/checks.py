"""Assertions as data, and the grade computed from them.

An assertion is a JSON object. `check` names an entry of `CHECKS`, `name` is the text in the sealed file, the
other keys are arguments of the check. Two more keys follow AutomationBench: an assertion with
`scored: false` or `excluded: true` never counts; one with `excluded: false` counts as an objective even if it
is true at the start.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mcp_bench.servers.grading import AssertionResult, Grade, partial_credit
from mcp_bench.servers.saasworld.engine.state import Record, State
from mcp_bench.servers.saasworld.grading.matchers import Where, field_of, fits, holds
from mcp_bench.servers.saasworld.grading.view import View, differing

Assertion = dict[str, Any]
GRADER_VERSION = "2"


def field_is(view: View, a: Assertion) -> bool:
    """A record exists and its field matches `is`."""
    record = view.get(a["collection"], a["id"])
    return record is not None and holds(a["is"], field_of(record, a["field"]), view)


def created(view: View, a: Assertion) -> bool:
    """At least `at_least` (default 1) created records match `where`."""
    found = [row for row in view.created(a["collection"]) if fits(row, a["where"], view)]
    return len(found) >= int(a.get("at_least", 1))


def exists(view: View, a: Assertion) -> bool:
    """Some record, new or old, matches `where`."""
    return any(fits(row, a["where"], view) for row in view.records(a["collection"]))


def absent(view: View, a: Assertion) -> bool:
    """No record has the id, or matches `where`."""
    if "id" in a:
        return view.get(a["collection"], a["id"]) is None
    return not exists(view, a)


def count(view: View, a: Assertion) -> bool:
    """Exactly `equals` records match `where`."""
    return sum(fits(row, a["where"], view) for row in view.records(a["collection"])) == int(a["equals"])


def unchanged(view: View, a: Assertion) -> bool:
    """Nothing in a collection changed."""
    return not any(change.collection == a["collection"] for change in view.changes)


def only(view: View, a: Assertion) -> bool:
    """Nothing in a collection changed except the listed exceptions.

    These are `updated` (names of fields by id), `deleted` (ids), and at most one new record for each `where`
    in `created`.
    """
    new: list[Record] = []
    for change in view.changes:
        if change.collection != a["collection"]:
            continue
        if change.after is None:
            if change.id not in a["deleted"]:
                return False
        elif change.before is None:
            new.append(change.after)
        elif not differing(change.before, change.after) <= set(a["updated"].get(change.id, ())):
            return False
    return assignable(new, a["created"], view)


def assignable(records: Sequence[Record], wanted: Sequence[Where], view: View) -> bool:
    """Return whether each record can match a different entry (bipartite matching by augmenting paths)."""
    owner: dict[int, int] = {}
    options = [[j for j, where in enumerate(wanted) if fits(record, where, view)] for record in records]

    def place(i: int, seen: set[int]) -> bool:
        for j in options[i]:
            if j not in seen:
                seen.add(j)
                if j not in owner or place(owner[j], seen):
                    owner[j] = i
                    return True
        return False

    return len(records) <= len(wanted) and all(place(i, set()) for i in range(len(records)))


CHECKS: dict[str, Callable[[View, Assertion], bool]] = {
    "field": field_is,
    "created": created,
    "exists": exists,
    "absent": absent,
    "count": count,
    "unchanged": unchanged,
    "only": only,
}


def grade(state: State, assertions: Sequence[Assertion]) -> Grade:
    """Grade a state. It is strict if every assertion that counts holds, guardrails included."""
    end, start = View(state), View(state, start=True)
    results: list[AssertionResult] = []
    for assertion in assertions:
        if assertion.get("scored") is False or assertion.get("excluded") is True:
            continue
        check = CHECKS[assertion["check"]]
        forced = assertion.get("excluded") is False
        kind = "guardrail" if not forced and check(start, assertion) else "objective"
        results.append(
            AssertionResult.model_construct(
                name=assertion["name"], passed=check(end, assertion), kind=kind, detail=""
            )
        )
    strict = all(result.passed for result in results) and any(
        result.kind == "objective" for result in results
    )
    partial = partial_credit(results, strict=strict)
    broken = sum(1 for result in results if result.kind == "guardrail" and not result.passed)
    return Grade(
        partial=partial,
        strict=strict,
        assertions=tuple(results),
        metrics={"broken_guardrails": float(broken), "changed_records": float(len(end.changes))},
        grader_version=GRADER_VERSION,
    )
