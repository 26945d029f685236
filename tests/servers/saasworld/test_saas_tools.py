"""The tools, with good and bad arguments."""

import json
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcp_bench.servers.contracts import ToolResult
from mcp_bench.servers.saasworld.apps import apps, operations
from mcp_bench.servers.saasworld.authoring.builder import Builder, Built
from mcp_bench.servers.saasworld.authoring.wording import free
from mcp_bench.servers.saasworld.engine.api_error import STATUS
from mcp_bench.servers.saasworld.engine.fields import Field
from mcp_bench.servers.saasworld.engine.operation import Operation
from mcp_bench.servers.saasworld.engine.state import State
from mcp_bench.servers.saasworld.rest import Api
from mcp_bench.servers.saasworld.toolsets import Direct
from tests.support.saas import TOOLSETS

pytestmark = pytest.mark.component


def office() -> Built:
    """Return a company with records in every app."""
    b = Builder(7, 0, 1_790_000_000, 3)
    for name in apps():
        b.background(name, 12)
    b.request("Do it.", "Please do it.", "Could you do it?")
    b.do("mail_messages_send", to=["ann@else.example"], subject=free("Hi"), body=free("Hello"))
    return b.finish()


OFFICE = office()
DIRECT, API = Direct(OFFICE), Api(OFFICE)
IDS = [record_id for table in OFFICE.tables.values() for record_id in table]
ADDRESSES = ["ann@else.example", OFFICE.settings["me"]["email"]]

anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.just("\ud800"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
texts = st.one_of(
    st.sampled_from(IDS),
    st.sampled_from(ADDRESSES),
    st.sampled_from(
        ["2026-09-30", "2026-02-30", "2027-01-01T10:00:00Z", "2027-01-01T25:00:00Z", "", "c20", "a"]
    ),
    st.text(max_size=8),
)


def values(field: Field) -> st.SearchStrategy[Any]:
    """Values for a parameter: most fit its schema, some are anything."""
    schema = field.schema
    match schema["type"]:
        case "string":
            fitting = st.sampled_from(schema["enum"]) if "enum" in schema else texts
        case "integer" | "number":
            fitting = st.sampled_from([0, 1, 2, 20.0, 0.01, 10**9]) | st.integers(-1, 10**9)
        case "boolean":
            fitting = st.booleans()
        case "array":
            fitting = st.lists(texts, max_size=3)
        case _:
            fitting = st.dictionaries(texts, texts | st.integers(0, 9) | st.booleans(), max_size=3)
    return st.one_of(fitting, fitting, fitting, anything)


@st.composite
def calls(draw: st.DrawFn, least: int = 0) -> tuple[Operation, dict[str, Any]]:
    operation = draw(st.sampled_from(list(operations().values())))
    arguments: dict[str, Any] = {}
    for field in operation.parameters:
        if (field.required and draw(st.integers(0, 9)) > 0) or draw(st.integers(0, 3)) == 0:
            arguments[field.name] = draw(values(field))
    if draw(st.integers(0, 9)) == 0:
        arguments[draw(st.text(max_size=5))] = draw(anything)
    return operation, arguments


def not_json(constant: str) -> None:
    raise AssertionError(f"{constant} is not JSON")


def checked(state: State, before: str, result: ToolResult) -> Any:
    """Check that an answer is JSON that can be sent, and that a refusal changed nothing."""
    body = json.loads(result.text.encode(), parse_constant=not_json)
    if result.is_error:
        assert json.dumps(state.tables) == before and body
    return body


@settings(max_examples=400, deadline=None)
@given(st.lists(calls(), min_size=1, max_size=4))
def test_a_refused_typed_call_changes_nothing(
    made: list[tuple[Operation, dict[str, Any]]],
) -> None:
    state = OFFICE.start()
    for operation, arguments in made:
        before = json.dumps(state.tables)
        result = DIRECT.call(state, operation.name, arguments)
        body = checked(state, before, result)
        if result.is_error:
            assert body["error"]["code"] in STATUS and body["error"]["message"]
        if not operation.writes:
            assert json.dumps(state.tables) == before


@settings(max_examples=300, deadline=None)
@given(
    call=calls(),
    method=st.sampled_from(["GET", "POST", "PUT", "PATCH", "DELETE", None]),
    place=st.sampled_from(["params", "body", "text", "none"]),
    suffix=st.sampled_from(["", "/", "?limit=3", "?limit=x&sort=", "?q=%ff", "/../x"]),
)
def test_a_refused_request_changes_nothing(
    call: tuple[Operation, dict[str, Any]], method: str | None, place: str, suffix: str
) -> None:
    operation, arguments = call
    state = OFFICE.start()
    url = operation.url.replace("{id}", str(arguments.pop("id", IDS[0]))) + suffix
    request: dict[str, Any] = {"method": method or operation.method, "url": url}
    if place in ("params", "body"):
        request[place] = arguments
    elif place == "text":
        request["body"] = json.dumps(arguments)
    result = API.call(state, "api_fetch", request)
    body = checked(state, json.dumps(OFFICE.tables), result)
    assert (body["status"] == 200) == (not result.is_error)


@settings(max_examples=200, deadline=None)
@given(
    st.sampled_from(["api_search", "api_fetch", "", "crm"]),
    st.dictionaries(
        st.sampled_from(["query", "top_k", "url", "method", "params", "body", "x"]), anything | texts
    ),
)
def test_the_two_generic_tools_take_anything(name: str, arguments: dict[str, Any]) -> None:
    state = OFFICE.start()
    checked(state, json.dumps(OFFICE.tables), API.call(state, name, arguments))


def test_there_are_enough_apps_and_tools_and_all_are_described() -> None:
    assert len(apps()) >= 12 and len(operations()) >= 90
    for operation in operations().values():
        assert len(operation.about) > 15 and operation.about.endswith("."), operation.name
        assert operation.schema["additionalProperties"] is False
        for name, schema in operation.schema["properties"].items():
            assert schema["description"], (operation.name, name)
    assert Counter((op.method, op.url) for op in operations().values()).most_common(1)[0][1] == 1


def test_both_toolsets_have_tools_that_a_session_can_serve() -> None:
    from mcp_bench.servers.mcp_server.world_session import WorldSession
    from mcp_bench.servers.saasworld.world import SaasWorld

    for toolset in (DIRECT, API):
        assert WorldSession(SaasWorld(OFFICE, toolset)).tools
    assert set(TOOLSETS) == {"direct", "api"}


def ask(state: State, tool: str, **arguments: Any) -> tuple[Any, bool]:
    result = DIRECT.call(state, tool, arguments)
    return json.loads(result.text), result.is_error


def error(state: State, tool: str, **arguments: Any) -> tuple[str, str | None]:
    body, refused = ask(state, tool, **arguments)
    assert refused, body
    return body["error"]["code"], body["error"].get("field")


def test_records_are_made_found_changed_and_deleted() -> None:
    state = OFFICE.start()
    made, _ = ask(state, "crm_contacts_create", name="Ann Ode", email="ann@else.example")
    assert made["id"].startswith("con_") and made["status"] == "active"
    found, _ = ask(state, "crm_contacts_search", query="ODE ann@")
    assert [row["id"] for row in found["items"]] == [made["id"]]
    ask(state, "crm_contacts_update", id=made["id"], title="Buyer")
    assert ask(state, "crm_contacts_get", id=made["id"])[0]["title"] == "Buyer"
    ask(state, "crm_contacts_delete", id=made["id"])
    assert error(state, "crm_contacts_get", id=made["id"]) == ("not_found", "id")
    assert state.changes() == []


def test_lists_come_in_pages_sorted_and_filtered() -> None:
    state = OFFICE.start()
    everything = list(state.rows("billing.invoices"))
    seen, arguments = [], {"limit": 2, "sort": "-amount"}
    while True:
        page, _ = ask(state, "billing_invoices_list", **arguments)
        seen += page["items"]
        if "next_cursor" not in page:
            break
        arguments["cursor"] = page["next_cursor"]
    assert sorted(row["id"] for row in seen) == sorted(row["id"] for row in everything)
    assert [row["amount"] for row in seen] == sorted((row["amount"] for row in seen), reverse=True)
    some, _ = ask(state, "billing_invoices_list", status="paid", amount_min=1)
    assert [row["id"] for row in some["items"]] == [
        row["id"] for row in everything if row["status"] == "paid"
    ]
    assert some["items"]


def test_a_search_comes_in_pages() -> None:
    state, totals = OFFICE.start(), []
    for tool in (name for name in operations() if name.endswith("_search")):
        first, _ = ask(state, tool, query="a", limit=2)
        seen, page = first["items"], first
        while "next_cursor" in page:
            page, refused = ask(state, tool, query="a", limit=2, cursor=page["next_cursor"])
            assert not refused, page
            seen += page["items"]
        totals.append(first["total"])
        assert len(seen) == len({row["id"] for row in seen}) == first["total"]
    assert sum(total > 2 for total in totals) > 20


def test_a_unique_value_does_not_conflict_with_its_own_record() -> None:
    state = OFFICE.start()
    one, two = list(state.rows("people.employees"))[:2]
    changed, _ = ask(state, "people_employees_update", id=one["id"], email=one["email"].upper())
    assert changed["email"] == one["email"].upper()
    again = error(state, "people_employees_update", id=one["id"], email=two["email"].upper())
    assert again == ("conflict", "email")


def test_refusals_say_what_is_wrong_and_where() -> None:
    state = OFFICE.start()
    deal = next(iter(state.rows("crm.deals")))["id"]
    paid = next(row for row in state.rows("billing.payments"))
    assert error(state, "crm_deals_update", id="deal_none", stage="won") == ("not_found", "id")
    assert error(state, "crm_deals_update", id=deal, stage="sold") == ("validation_error", "stage")
    assert error(state, "crm_deals_update", id=deal, contact_id="con_none") == (
        "validation_error",
        "contact_id",
    )
    assert error(state, "crm_deals_update", id=deal, close_date="2026-02-30") == (
        "validation_error",
        "close_date",
    )
    assert error(state, "crm_deals_update", id=deal, colour="red")[0] == "validation_error"
    assert error(state, "crm_deals_create") == ("validation_error", "name")
    too_much = paid["amount"] + 1
    assert error(
        state, "billing_refunds_create", payment_id=paid["id"], amount=too_much, reason="goodwill"
    ) == ("validation_error", "amount")
    assert error(state, "billing_invoices_void", id=paid["invoice_id"])[0] == "conflict"
    account = next(row["account_id"] for row in state.rows("crm.contacts"))
    assert "crm_accounts_delete" not in operations() and account
    contact = next(row["contact_id"] for row in state.rows("crm.deals"))
    assert error(state, "crm_contacts_delete", id=contact)[0] == "conflict"
    assert error(state, "nothing_here")[0] == "not_found"
    assert state.changes() == []


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("amount", float("nan")),
        ("amount", float("inf")),
        ("amount", 1e308),
        ("name", "\ud800"),
        ("name", " "),
    ],
)
def test_values_that_cannot_be_stored_are_refused(field: str, value: Any) -> None:
    state = OFFICE.start()
    assert error(state, "crm_deals_create", **{"name": "New", field: value})[0] == "validation_error"
    assert state.changes() == []


def test_limits_of_the_state_hold() -> None:
    b = Builder(7, 0, 1_790_000_000, 3)
    b.background("crm", 12)
    b.background("mail", 3)
    b.read_only("crm")
    b.limit_calls("mail", 2)
    b.request("Do it.", "Please do it.", "Could you do it?")
    b.do("mail_messages_send", to=["ann@else.example"], subject=free("Hi"), body=free("Hello"))
    built = b.finish()
    state, tools = built.start(), Direct(built)
    assert "permission_denied" in tools.call(state, "crm_accounts_create", {"name": "New"}).text
    assert not tools.call(state, "crm_accounts_list", {}).is_error
    answers = [tools.call(state, "mail_labels_list", {}).is_error for _ in range(3)]
    assert answers == [False, False, True]
    refused = json.loads(tools.call(state, "mail_labels_list", {}).text)["error"]
    assert refused["code"] == "rate_limited" and 0 < refused["retry_after_seconds"] <= 60
    for _ in range(12):
        tools.call(state, "crm_accounts_list", {})
    assert not tools.call(state, "mail_labels_list", {}).is_error


def test_the_api_answers_with_status_codes() -> None:
    b = Builder(7, 0, 1_790_000_000, 3)
    b.background("crm", 12)
    b.request("Do it.", "Please do it.", "Could you do it?")
    b.do("crm_accounts_create", name="New")
    built = b.finish()
    state, api = built.start(), Api(built)
    record = next(iter(state.rows("crm.accounts")))

    def status(method: str, url: str, **more: Any) -> int:
        result = api.call(state, "api_fetch", {"method": method, "url": f"https://{url}", **more})
        return int(json.loads(result.text)["status"])

    crm = "crm.example.com/v1"
    assert status("GET", f"{crm}/accounts/{record['id']}") == 200
    assert status("GET", f"{crm}/accounts?limit=2&status=customer") == 200
    assert status("GET", "mail.example.com/v1/messages") == 401
    assert status("GET", f"{crm}/accounts/none") == status("GET", f"{crm}/colours") == 404
    assert status("GET", "nowhere.example.com/v1/accounts") == 404
    assert status("PUT", f"{crm}/accounts") == 405
    assert status("POST", f"{crm}/accounts", body={"name": 5}) == 422
    assert status("POST", f"{crm}/accounts", body="{") == 422
    assert status("GET", f"{crm}/accounts?limit=many") == 422
    assert state.changes() == []
    assert status("POST", f"{crm}/accounts", body='{"name": "Fresh"}') == 200
    assert [change.after["name"] for change in state.changes() if change.after] == ["Fresh"]


def test_the_search_finds_the_endpoint_in_plain_words() -> None:
    state = OFFICE.start()
    wanted = {
        "send an email": "https://mail.example.com/v1/messages/send",
        "update a contact": "https://crm.example.com/v1/contacts/{id}",
        "refund a payment": "https://billing.example.com/v1/refunds",
        "approve a leave request": "https://people.example.com/v1/leave_requests/{id}/approve",
        "merge two tickets": "https://helpdesk.example.com/v1/tickets/{id}/merge",
    }
    for query, url in wanted.items():
        found = json.loads(API.call(state, "api_search", {"query": query}).text)["endpoints"]
        assert url in [endpoint["url"] for endpoint in found], query
