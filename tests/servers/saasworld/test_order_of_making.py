"""Ids and numbers do not show which record a family made first: often it is the one to change."""

from collections.abc import Callable
from statistics import mean

import pytest

from mcp_bench.servers.saasworld.authoring.builder import Builder
from mcp_bench.servers.saasworld.engine.state import Record
from mcp_bench.servers.saasworld.tasks import build, parse
from tests.support.saas import solved

pytestmark = pytest.mark.contract

TASKS = 14
NUMBERED = (
    "finance-invoice-state.2.test",
    "finance-single-payment.2.train",
    "operations-order-dispatch.2.train",
    "simple-invoice-due-date.2.train",
    "simple-order-address.2.train",
    "simple-ticket-status.2.train",
)
MADE_FIRST = (
    "hr-filled-position.3.train",
    "simple-channel-upkeep.2.test",
    "simple-contact-details.2.train",
    "simple-document-details.2.train",
    "simple-invoice-due-date.2.train",
)
IDS = 1 << 24


def number(record: Record) -> int:
    return int(record["number"].rpartition("-")[2])


def count(record: Record) -> int:
    """Return what an id was made of: everybody can undo how ids are mixed, except for a constant."""
    mixed = int(record["id"].rpartition("_")[2], 16)
    value = mixed ^ (mixed >> 13)
    value = value * pow(0x85EBCB, -1, IDS) % IDS
    value ^= (value >> 11) ^ (value >> 22)
    return value * pow(0x9E3779, -1, IDS) % IDS


def after_the_gap(table: list[Record]) -> Callable[[Record], int]:
    """Return the counts from the first one on: it comes after the widest gap, as counting has no other one."""
    counts = sorted(count(record) for record in table)
    before = [counts[-1], *counts[:-1]]
    _, first = max(((one - other) % IDS, one) for one, other in zip(counts, before, strict=True))
    return lambda record: (count(record) - first) % IDS


def places(
    kinds: tuple[str, ...], field: str, key: Callable[[list[Record]], Callable[[Record], int]]
) -> list[float]:
    """Return the place in its table, from 0 to 1, of the first record with the field that a task changes."""
    found = []
    for task in (f"{kind}.{n}" for kind in kinds for n in range(TASKS)):
        change = next(c for c in solved(task).state.changes() if field in (c.before or ()))
        assert change.before is not None
        table = list(build(parse(task)).tables[change.collection].values())
        assert len(table) >= 10
        value = key(table)
        found.append(sum(value(row) < value(change.before) for row in table) / (len(table) - 1))
    return found


def assert_by_chance(found: list[float]) -> None:
    assert max(found.count(0.0), found.count(1.0)) < 0.2 * len(found)
    assert 0.35 < mean(found) < 0.65


def test_the_lowest_number_is_no_better_than_chance() -> None:
    assert_by_chance(places(NUMBERED, "number", lambda _: number))


def test_ids_cannot_be_put_in_order() -> None:
    assert_by_chance(places(MADE_FIRST, "id", after_the_gap))


@pytest.mark.parametrize("seed", range(5))
def test_records_of_an_agent_continue_the_numbers(seed: int) -> None:
    b = Builder(seed, 0, 1_790_000_000, 2)
    b.background("billing", 400)
    b.request("Do it.", "Please do it.", "Could you do it?")
    invoices = list(b.state.rows("billing.invoices"))
    values = {name: invoices[0][name] for name in ("customer_id", "amount", "currency")}
    made = [b.do("billing_invoices_create", **values) for _ in range(3)]
    highest = max(number(record) for record in invoices)
    assert [number(record) for record in made] == [highest + 1, highest + 2, highest + 3]
    everything = [*invoices, *made]
    assert len({row["number"] for row in everything}) == len({row["id"] for row in everything}) == 103
    assert [row["number"] for row in invoices] != sorted(row["number"] for row in invoices)
