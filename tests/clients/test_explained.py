"""The words that explain a call: which item was chosen, and what was calculated."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_bench.clients.explained import Explainer

pytestmark = pytest.mark.unit

CAMPAIGNS = {
    "items": [
        {"id": "camp_1", "name": "Orion Oslo launch", "status": "completed", "budget": 12000},
        {"id": "camp_2", "name": "Orion Oslo launch", "status": "active", "budget": 17500},
        {"id": "camp_3", "name": "Orion Oslo launch party", "status": "active", "budget": 9000},
    ],
    "total": 3,
}


def words(request: str, arguments: dict[str, Any], *results: Any) -> str | None:
    explainer = Explainer(request)
    for result in results:
        explainer.took(json.dumps(result))
    return explainer.explain(arguments)


def test_the_fields_that_the_request_names_set_an_item_apart() -> None:
    request = "Raise the budget of the active campaign Orion Oslo launch."
    found = words(request, {"id": "camp_2"}, {"items": CAMPAIGNS["items"][:2]})
    assert found == 'camp_1: status "completed". camp_2: status "active". With status "active": camp_2.'


def test_as_many_fields_are_named_as_are_needed() -> None:
    request = "The party of the active Orion Oslo is off."
    rest = [{**item, "name": "Orion Oslo launch"} for item in CAMPAIGNS["items"][:2]]
    party = {"id": "camp_4", "name": "Orion Oslo party", "status": "completed"}
    found = words(request, {"id": "camp_3"}, {"items": [*rest, CAMPAIGNS["items"][2], party]})
    assert found is not None
    assert found.endswith('camp_4: name "Orion Oslo party". With name "Orion Oslo launch party": camp_3.')
    same = {"items": [*CAMPAIGNS["items"], party | {"name": "Orion Oslo launch party"}]}
    more = {"items": [*same["items"], party | {"id": "camp_5"}]}
    found = words(request, {"id": "camp_3"}, more)
    assert found == 'With status "active", name "Orion Oslo launch party": camp_3.'


def test_a_few_items_are_gone_through_one_by_one_and_many_are_not() -> None:
    people = [{"email": f"{name}@a.example", "city": name} for name in ("Oslo", "Quito", "Lima", "Bern")]
    del people[2]["city"]
    found = words("Move the one in Quito.", {"who": "Quito@a.example"}, {"items": people})
    assert found == (
        'Oslo@a.example: city "Oslo". Quito@a.example: city "Quito". Lima@a.example: none of it. '
        'Bern@a.example: city "Bern". With city "Quito": Quito@a.example.'
    )
    people.append({"email": "ada@a.example", "city": "Rome"})
    found = words("Move the one in Quito.", {"who": "Quito@a.example"}, {"items": people})
    assert found == 'With city "Quito": Quito@a.example.'


def test_an_id_in_an_item_is_read_as_the_name_that_an_earlier_result_gave() -> None:
    lists = {"items": [{"id": "aud_1", "name": "Product news"}, {"id": "aud_2", "name": "Offers"}]}
    members = {"items": [{"id": "sbr_1", "audience_id": "aud_2"}, {"id": "sbr_2", "audience_id": "aud_1"}]}
    found = words("Take Ada out of Product news.", {"id": "sbr_2"}, lists, members)
    assert found == (
        'sbr_1: audience_id "aud_2". sbr_2: audience_id "aud_1" is "Product news". '
        'With audience_id "aud_1" is "Product news": sbr_2.'
    )


@pytest.mark.parametrize(
    ("request_", "value", "explanation"),
    [
        ("1,500 more, please.", 19000, "17500 + 1500 = 19000."),
        ("1000 USD less.", 16500, "17500 - 1000 = 16500."),
        ("Raise it by 10 percent.", 19250.0, "10 percent of 17500 is 1750. 17500 + 1750 = 19250."),
        ("Cut it by 10 percent.", 15750, "10 percent of 17500 is 1750. 17500 - 1750 = 15750."),
        ("Three times as much: 3.", 52500, "17500 * 3 = 52500."),
        ("Set it to 4000.", 4000, None),
        ("Make it what you like.", 4000, None),
    ],
)
def test_a_calculation_is_written_down(request_: str, value: float, explanation: str | None) -> None:
    found = words(request_, {"id": "camp_2", "budget": value}, {"items": [CAMPAIGNS["items"][1]]})
    assert found == explanation


@pytest.mark.parametrize(("count", "unit"), [(21, "days"), (3, "weeks")])
def test_a_date_is_counted_from_one_that_is_known(count: int, unit: str) -> None:
    invoice = {"id": "inv_1", "due_date": "2026-07-17"}
    request = f"Seen on 2026-07-01: due {count} {unit} later."
    found = words(request, {"id": "inv_1", "due_date": "2026-08-07"}, invoice)
    assert found == f"2026-07-17 + {count} {unit} = 2026-08-07."


def test_what_the_request_says_and_what_was_said_before_needs_no_words() -> None:
    explainer = Explainer("Pause the active campaign of Oslo.")
    explainer.took(json.dumps({"items": CAMPAIGNS["items"][:2]}))
    assert explainer.explain({"city": "Oslo"}) is None
    assert explainer.explain({"id": "camp_2"}) is not None
    assert explainer.explain({"id": "camp_2"}) is None, "known from the call before"


@pytest.mark.parametrize(("number", "other"), [(1, 2), (0, 3)])
def test_a_number_is_not_yes_or_no(number: int, other: int) -> None:
    """In Python, 1 is True and 0 is False: neither shows which item was meant, nor sets it apart."""
    lamps = [{"name": "hall", "on": number == 1}, {"name": "attic", "on": number != 1}]
    assert words("Light the hall.", {"level": number}, {"items": lamps}) is None
    slots = [{"slot": number, "free": False}, {"slot": other, "free": True}]
    found = words("Take the other one.", {"slot": other}, {"items": slots})
    assert found == f"{number}: free false. {other}: free true. With free true: {other}."
    mixed = [{"slot": 7, "free": number == 1}, {"slot": 8, "free": number}]
    found = words("Take the first.", {"slot": 7}, {"items": mixed})
    says = json.dumps(number == 1)
    assert found == f"7: free {says}. 8: free {number}. With free {says}: 7."


def test_items_that_look_alike_are_chosen_without_words() -> None:
    twins = {"items": [{"id": "a", "sku": "S-1"}, {"id": "b", "sku": "S-2"}]}
    assert words("The second one.", {"id": "b"}, twins) is None


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.dates().map(str),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=20,
)


@given(
    st.text(),
    st.dictionaries(st.text(max_size=4), JSON_VALUES, max_size=4),
    st.lists(JSON_VALUES, max_size=3),
)
def test_no_request_and_no_result_stops_an_attempt(
    request_: str, arguments: dict[str, Any], results: list[Any]
) -> None:
    found = words(request_, arguments, *results)
    assert found is None or found.endswith(".")
    Explainer(request_).took(request_)
