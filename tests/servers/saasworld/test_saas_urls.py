"""Requests of the `api` toolset: what a URL, `params` and a body give."""

import json
from typing import Any

import pytest

from mcp_bench.servers.saasworld.authoring.builder import Builder, Built
from mcp_bench.servers.saasworld.engine.state import State
from mcp_bench.servers.saasworld.rest import Api

pytestmark = pytest.mark.component


def office() -> Built:
    b = Builder(7, 0, 1_790_000_000, 3)
    b.background("crm", 20)
    b.background("calendar", 20)
    b.request("Do it.", "Please do it.", "Could you do it?")
    b.do("crm_accounts_create", name="New")
    return b.finish()


OFFICE = office()
API = Api(OFFICE)


def fetch(state: State, method: str, url: str, **more: Any) -> tuple[int, Any]:
    """Return status and body of a request."""
    request = {"method": method, "url": f"https://{url}", **more}
    answer = json.loads(API.call(state, "api_fetch", request).text, parse_constant=pytest.fail)
    return answer["status"], answer["body"]


@pytest.mark.parametrize(
    "text", ["nan", "inf", "-Infinity", "1e999", "1_000", "%205", "+5", "05", ".5", "\u0665"]
)
def test_a_number_in_a_url_is_spelled_as_in_json(text: str) -> None:
    state = OFFICE.start()
    deal = next(iter(state.rows("crm.deals")))["id"]
    place = f"crm.example.com/v1/deals/{deal}"
    status, body = fetch(state, "PATCH", f"{place}?amount={text}")
    assert (status, body["error"]["message"]) == (422, "amount must be of type number.")
    assert fetch(state, "GET", f"crm.example.com/v1/deals?limit={text}")[0] == 422
    assert state.changes() == []
    assert [fetch(state, "PATCH", f"{place}?amount={good}")[1]["amount"] for good in ("5", "1.5e2")] == [
        5,
        150,
    ]


def test_a_list_in_a_url_can_be_repeated() -> None:
    state = OFFICE.start()
    busy = "calendar.example.com/v1/events/busy?start=2026-01-01T00:00:00Z&end=2027-12-31T00:00:00Z"
    people = [one, two, three] = next(iter(state.rows("calendar.events")))["attendees"]
    _, wanted = fetch(state, "GET", busy, params={"attendees": people})
    assert {row["email"] for row in wanted["busy"]} == set(people)
    for query in (f"attendees={one}&attendees={two},{three}", f"attendees={one},{two}&attendees={three}"):
        assert fetch(state, "GET", f"{busy}&{query}") == (200, wanted)


@pytest.mark.parametrize(
    ("query", "more", "says"),
    [
        ("?stage=won&stage=lost", {}, "'stage' more than once"),
        ("?stage=won", {"body": {"stage": "lost"}}, "'stage' is 'won' in the URL and 'lost' in the body"),
        ("?stage=won", {"params": {"stage": "lost"}}, "'won' in the URL and 'lost' in the params"),
        (
            "",
            {"params": {"stage": "won"}, "body": '{"stage": "lost"}'},
            "in the params and 'lost' in the body",
        ),
        ("?id={other}", {"body": {"stage": "won"}}, "'id' is '{own}' in the path and '{other}' in the URL"),
        (
            "",
            {"body": {"id": "{other}", "stage": "won"}},
            "in the path and '{other}' in the body: give it once",
        ),
    ],
)
def test_a_request_that_contradicts_itself_is_refused(query: str, more: dict[str, Any], says: str) -> None:
    state = OFFICE.start()
    own, other = (deal["id"] for deal in list(state.rows("crm.deals"))[:2])

    def filled(text: str) -> str:
        return text.replace("{own}", own).replace("{other}", other)

    more = json.loads(filled(json.dumps(more)))
    status, body = fetch(state, "PATCH", f"crm.example.com/v1/deals/{own}{filled(query)}", **more)
    assert status == 422 and filled(says) in body["error"]["message"]
    assert state.changes() == []


def test_a_request_can_repeat_an_id_and_a_value() -> None:
    state = OFFICE.start()
    deal = next(iter(state.rows("crm.deals")))["id"]
    place = f"crm.example.com/v1/deals/{deal}?amount=5"
    status, body = fetch(state, "PATCH", place, body={"id": deal, "amount": 5, "stage": "won"})
    assert (status, body["amount"], body["stage"]) == (200, 5, "won")
    assert [change.id for change in state.changes()] == [deal]
