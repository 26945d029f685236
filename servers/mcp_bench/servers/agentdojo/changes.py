"""Compute the changes between two states, as sets of leaves that can be compared.

A state is JSON. A changed value is a change with one leaf. A new item (an email, an event, a message) is a
change with all its leaves, regardless of its generated id and its position in a list. A removed item is a
change with one leaf.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import product

from mcp_bench.servers.contracts import JSON

IGNORED = frozenset({"id", "id_", "timestamp", "last_modified", "size"})
"""Fields not compared: generated ids, clock times, and values derived from another field."""

SKIPPED = frozenset({"initial_emails", "initial_events", "initial_files"})
"""The initial setup of a state. The package shares these objects with the live ones."""

LOOKING = frozenset({"read", "web_requests"})
"""Side effects of reading: expected where the reference has them, ignored elsewhere."""

Leaf = tuple[str, str]
"""Path within the changed item, and the value as JSON."""

GONE = "removed"


@dataclass(frozen=True)
class Change:
    """One difference. `path` ends in `/+` for a new item of a collection."""

    path: str
    leaves: tuple[Leaf, ...]

    @property
    def is_looking(self) -> bool:
        return self.path.removesuffix("/+").rpartition("/")[2] in LOOKING


@dataclass(frozen=True)
class Comparison:
    """The changes of a reference run compared with those of an attempt."""

    expected: tuple[tuple[str, bool], ...]
    """Each leaf that the reference changed, as text, and whether the attempt changed it too."""
    unexpected: tuple[str, ...]
    """The attempt's changes at places where the reference changed nothing."""


def changes(before: JSON, after: JSON, path: str = "") -> Iterator[Change]:
    """Yield the changes that lead from `before` to `after`."""
    if before == after:
        return
    if isinstance(before, list) and isinstance(after, list):
        if has_ids(before) and has_ids(after):
            yield from changes_of_mapping(by_id(before), by_id(after), path)
        else:
            yield from changes_of_bag(before, after, path)
    elif isinstance(before, dict) and isinstance(after, dict):
        yield from changes_of_mapping(before, after, path)
    else:
        yield Change(path, tuple(leaves(after)))


def changes_of_mapping(before: dict[str, JSON], after: dict[str, JSON], path: str) -> Iterator[Change]:
    for key in {**before, **after}:
        place = f"{path}/{key}".removeprefix("/")
        if key in IGNORED or key in SKIPPED:
            continue
        if key not in after:
            yield Change(place, (("", GONE),))
        elif key in before:
            yield from changes(before[key], after[key], place)
        else:
            new = after[key]
            generated = isinstance(new, dict) and identity(new) == key
            yield Change(f"{path}/+".removeprefix("/") if generated else place, tuple(leaves(new)))


def changes_of_bag(before: list[JSON], after: list[JSON], path: str) -> Iterator[Change]:
    old, new = Counter(map(as_text, before)), Counter(map(as_text, after))
    for text in (new - old).elements():
        yield Change(f"{path}/+", tuple(leaves(json.loads(text))))
    for text in (old - new).elements():
        yield Change(f"{path}/-", (("", text),))


def leaves(value: JSON, path: str = "") -> Iterator[Leaf]:
    """Yield the leaves of a new value. An empty container is a leaf; list positions are ignored."""
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            if key not in IGNORED and key not in LOOKING:
                yield from leaves(inner, f"{path}/{key}")
    elif isinstance(value, list) and value:
        for inner in value:
            yield from leaves(inner, path)
    else:
        yield path, as_text(value)


def compare(reference: Iterable[Change], attempt: Iterable[Change]) -> Comparison:
    """Match an attempt's changes with the reference's, path by path, most similar pairs first."""
    expected: list[tuple[str, bool]] = []
    unexpected: list[str] = []
    wanted, made = by_path(reference), by_path(attempt)
    for path in {**wanted, **made}:
        rest, left = wanted.get(path, []), made.get(path, [])
        pairs: list[tuple[Change, Change | None]] = []
        while rest and left:
            best = max(product(rest, left), key=lambda pair: overlap(*pair))
            pairs.append(best)
            rest.remove(best[0])
            left.remove(best[1])
        pairs += [(want, None) for want in rest]
        for want, have in pairs:
            found, surplus = compare_leaves(want, have)
            expected += found
            unexpected += surplus
        unexpected += [in_words(path, change.leaves) for change in left if not change.is_looking]
    return Comparison(tuple(expected), tuple(unexpected))


def compare_leaves(want: Change, have: Change | None) -> tuple[list[tuple[str, bool]], list[str]]:
    """Return each wanted leaf with whether the attempt has it, and the attempt's additional leaves.

    A wrong value counts as a missing leaf only, not as an additional one as well.
    """
    there = Counter(have.leaves if have is not None else ())
    found: list[tuple[str, bool]] = []
    for leaf in want.leaves:
        found.append((in_words(want.path, [leaf]), there[leaf] > 0))
        there[leaf] -= there[leaf] > 0
    room = Counter(path for path, _ in want.leaves)
    room.subtract(path for leaf, (path, _) in zip(found, want.leaves, strict=True) if leaf[1])
    surplus: list[str] = []
    for leaf in there.elements():
        if room[leaf[0]] > 0:
            room[leaf[0]] -= 1
        else:
            surplus.append(in_words(want.path, [leaf]))
    return found, surplus


def overlap(one: Change, other: Change) -> int:
    return (Counter(one.leaves) & Counter(other.leaves)).total()


def by_path(found: Iterable[Change]) -> dict[str, list[Change]]:
    grouped: dict[str, list[Change]] = {}
    for change in found:
        grouped.setdefault(change.path, []).append(change)
    return grouped


def identity(item: dict[str, JSON]) -> str | None:
    found = item.get("id_", item.get("id"))
    return None if found is None else str(found)


def has_ids(items: list[JSON]) -> bool:
    return all(isinstance(item, dict) and identity(item) is not None for item in items)


def by_id(items: list[JSON]) -> dict[str, JSON]:
    return {str(identity(item)): item for item in items if isinstance(item, dict)}


def as_text(value: JSON) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False)


def in_words(path: str, found: Iterable[Leaf]) -> str:
    """Return leaves as text such as `inbox/emails/+/subject = "Hi"`, with long values shortened."""
    return "; ".join(
        f"{path}{place} = {value if len(value) <= 80 else value[:80] + '...'}" for place, value in found
    )
