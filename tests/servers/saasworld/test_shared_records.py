"""Building blocks that families share: records in pairs, policies of two versions, people who are alike."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_bench.servers.saasworld.authoring import Builder, records, steps
from mcp_bench.servers.saasworld.authoring.traps import revised_policy, same_name, shifted
from mcp_bench.servers.saasworld.authoring.wording import listed, paragraphs
from mcp_bench.servers.saasworld.engine.state import Record

pytestmark = pytest.mark.unit


def builder() -> Builder:
    return Builder(11, 0, 1_790_000_000, 2)


def rows(b: Builder, collection: str) -> list[Record]:
    return list(b.state.rows(collection))


def test_a_revised_policy_differs_in_the_given_values_only() -> None:
    b = builder()
    current = revised_policy(
        b, "Gift policy", "Up to {limit} USD, {who} signs.", {"limit": 30, "who": "Ann"}, {"limit": 90}
    )
    assert current["status"] == "published"
    assert current["body"].endswith("Up to 30 USD, Ann signs.")
    older = [row["body"] for row in rows(b, "documents.documents") if row["id"] != current["id"]]
    assert len(older) == 2
    assert all(body.endswith("Up to 90 USD, Ann signs.") for body in older)


@given(st.lists(st.integers(), unique=True, min_size=2))
def test_a_shifted_table_has_no_value_in_its_place(values: list[int]) -> None:
    table = {str(place): value for place, value in enumerate(values)}
    turned = shifted(table)
    assert list(turned) == list(table)
    assert sorted(turned.values()) == sorted(values)
    assert all(turned[key] != value for key, value in table.items())


def test_somebody_of_the_same_name_costs_no_draw() -> None:
    b, other = builder(), builder()
    person, company = b.person(), b.company()
    other.person()
    other.company()
    twin = same_name(person, company)
    assert (twin.name, twin.email) == (person.name, f"{person.first}.{person.last}@{company.domain}".lower())
    assert same_name(twin) == person
    assert b.integer(0, 10**9) == other.integer(0, 10**9)


def test_a_colleague_draws_only_what_is_not_given() -> None:
    b, other = builder(), builder()
    person = b.staff[0]
    record = records.colleague(
        b, person, "Sales", title="Clerk", manager=b.me, location="Rome", start_date="2020-01-02", leave=7
    )
    assert (record["manager_email"], record["leave_days"]) == (b.me.email, 7)
    assert b.integer(0, 10**9) == other.integer(0, 10**9)
    drawn = records.colleague(b, b.staff[1], "Sales", since=(-20, -10), leave=(3, 4))
    assert b.date(-20) <= drawn["start_date"] <= b.date(-10)
    assert drawn["leave_days"] in (3, 4)


def test_this_year_and_last_year_come_as_a_pair() -> None:
    b = builder()
    this = records.yearly_projects(b, "Media", b.me)
    before = next(row for row in rows(b, "projects.projects") if row["id"] != this["id"])
    year = b.today.year
    assert (this["name"], this["status"]) == (f"Media {year}", "active")
    assert (before["name"], before["status"]) == (f"Media {year - 1}", "done")
    sheets = records.yearly_sheets(b, "Costs", ("Item", "Amount"))
    assert [sheet["name"] for sheet in sheets] == [f"Costs {year}", f"Costs {year - 1}"]


def test_an_event_ends_after_its_minutes() -> None:
    b = builder()
    event = records.event(b, "Talk", "2026-03-04T23:30:00Z", 45, b.me, *b.staff[:2], status="cancelled")
    assert event["ends_at"] == "2026-03-05T00:15:00Z"
    assert event["attendees"] == [b.staff[0].email, b.staff[1].email]


def test_texts_of_policies() -> None:
    b = builder()
    assert listed({"a": 1, "b": 2}) == "a 1, b 2"
    assert listed({"Sales": b.me}, "{}: {.email}") == f"Sales: {b.me.email}"
    assert paragraphs("1. One.", "2. Two.") == "1. One.\n2. Two."


def test_a_number_in_a_row_can_be_entered_as_text() -> None:
    cell = steps.number(104.5, "104.50")
    assert (cell.value, cell.matcher) == (104.5, {"one_of": [104.5, "104.5", "104.50"]})
