"""The builder: tasks from families, and errors for their authors."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mcp_bench.servers.saasworld.authoring.builder import Builder, Built
from mcp_bench.servers.saasworld.authoring.wording import also, free, one_of, says
from mcp_bench.servers.saasworld.engine.seeder import FamilyError
from mcp_bench.servers.saasworld.engine.state import State
from mcp_bench.servers.saasworld.families.simple import contact_details
from mcp_bench.servers.saasworld.grading.checks import grade
from mcp_bench.servers.saasworld.short_tools import MAX_CHARACTERS, size
from mcp_bench.servers.saasworld.toolsets import Direct
from tests.support import ROOT
from tests.support.saas import broken

pytestmark = pytest.mark.unit

PHRASINGS = ("Do it.", "Please do it.", "Could you do it?")


def test_the_documented_example_is_a_real_family() -> None:
    page = (ROOT / "docs" / "benchmarks" / "saasworld.md").read_text()
    assert Path(contact_details.__file__).read_text().strip() in page


def builder(level: int = 2) -> Builder:
    return Builder(11, 0, 1_790_000_000, level)


def run(built: Built, *calls: tuple[str, dict[str, Any]]) -> State:
    state = built.start()
    for name, arguments in calls:
        result = Direct(built).call(state, name, arguments)
        assert not result.is_error, result.text
    return state


def mistakes() -> dict[str, tuple[Callable[[Builder], Any], str]]:
    mail = {"to": ["a@b.example"], "subject": free("s"), "body": free("b")}
    return {
        "prose": (
            lambda b: b.do("mail_messages_send", to=["a@b.example"], subject="s", body="b"),
            "is prose",
        ),
        "tool": (lambda b: b.do("mail_send", **mail), "no tool"),
        "parameter": (lambda b: b.do("mail_messages_send", copy=1, **mail), "no parameter copy"),
        "collection": (lambda b: b.add("crm.people", name="x"), "no collection"),
        "field": (lambda b: b.add("crm.contacts", name="x", nick="y"), "no field nick"),
        "missing": (lambda b: b.add("crm.contacts", email="a@b.example"), "needs name"),
        "app": (lambda b: b.background("phone", 3), "no app"),
        "refused": (lambda b: b.do("crm_contacts_update", id="con_1", name="x"), "is refused"),
        "changes": (lambda b: b.look("mail_messages_send", **mail), "use do"),
        "reads": (lambda b: b.do("mail_messages_list"), "changed nothing"),
        "phrasings": (lambda b: b.request("Do it."), "3 phrasings"),
        "order": (lambda b: (b.look("mail_labels_list"), b.add("mail.labels", name="x")), "before"),
        "request": (lambda b: (b.do("mail_messages_send", **mail), b.finish()), "no request"),
        "change": (lambda b: (b.request(*PHRASINGS), b.look("mail_labels_list"), b.finish()), "no do"),
        "unchecked": (
            lambda b: (
                b.add(
                    "calendar.events",
                    title="t",
                    starts_at="2026-09-30T08:00:00Z",
                    ends_at="2026-09-30T09:00:00Z",
                ),
                b.do(
                    "calendar_events_cancel",
                    id=next(iter(b.state.tables["calendar.events"])),
                    message=says("Sorry, not today", "today"),
                ),
            ),
            "ends up in no record",
        ),
    }


@pytest.mark.parametrize("mistake", mistakes())
def test_a_mistake_of_an_author_raises_a_clear_error(mistake: str) -> None:
    make, says_so = mistakes()[mistake]
    with pytest.raises(FamilyError, match=says_so):
        make(builder())


def test_the_smallest_tasks_stay_small() -> None:
    def build(length: int) -> Built:
        b = builder(level=1)
        record = b.add("crm.deals", name="Pine")
        b.request(*(f"{phrase:x<{length}}" for phrase in PHRASINGS))
        b.look("crm_deals_search", query="Pine")
        b.do("crm_deals_update", id=record["id"], stage="won")
        return b.finish()

    shown = []
    for length in range(100, 780, 20):
        built = build(length)
        assert built.offers and len(built.offers) == 4
        assert len(built.prompt) + size(built.offers) <= MAX_CHARACTERS
        shown.append(sum(len(offer.parameters) for offer in built.offers))
    assert shown[-1] < shown[0]
    with pytest.raises(FamilyError, match="at most 1600"):
        build(1500)


def project() -> Built:
    """Return a task that makes a project with two tasks, the second in free words."""
    b = builder()
    b.background("projects", 20)
    b.request(*PHRASINGS)
    made = b.do("projects_create", name="Move", description=free("x"))
    b.do("projects_tasks_create", project_id=made["id"], title="Boxes", priority=one_of("high", "normal"))
    b.do("projects_tasks_create", also("due_date"), project_id=made["id"], title=says("Rent a van", "van"))
    return b.finish()


def test_new_ids_do_not_depend_on_the_order_of_calls() -> None:
    built = project()
    state = run(built, ("projects_create", {"name": "move"}))
    new = state.changes()[0].id
    run_on = Direct(built)
    for title, more in (("Get the VAN", {"due_date": "2026-12-01"}), ("Boxes", {})):
        assert not run_on.call(
            state, "projects_tasks_create", {"project_id": new, "title": title, **more}
        ).is_error
    assert grade(state, built.assertions).strict


def test_records_that_refer_to_a_new_record_are_matched() -> None:
    b = builder()
    b.request(*PHRASINGS)
    for name, person in (("Pine", "Ann"), ("Oak", "Bo")):
        account = b.do("crm_accounts_create", name=name)
        b.do("crm_contacts_create", name=person, account_id=account["id"])
    built = b.finish()

    def made(*pairs: tuple[str, str]) -> bool:
        state = built.start()
        for account, person in pairs:
            Direct(built).call(state, "crm_accounts_create", {"name": account})
            new = [change.id for change in state.changes() if change.collection == "crm.accounts"][-1]
            Direct(built).call(state, "crm_contacts_create", {"name": person, "account_id": new})
        return grade(state, built.assertions).strict

    assert made(("Pine", "Ann"), ("Oak", "Bo")) and made(("Oak", "Bo"), ("Pine", "Ann"))
    assert not made(("Pine", "Bo"), ("Oak", "Ann"))


@pytest.mark.parametrize(
    ("tasks", "partial_below", "guard"),
    [
        ([{"title": "Boxes"}], 1.0, 0),
        ([{"title": "Boxes"}, {"title": "Rent a car"}], 1.0, 0),
        ([{"title": "Boxes", "status": "done"}, {"title": "Rent a van"}], 1.0, 0),
        ([{"title": "Boxes"}, {"title": "Rent a van"}, {"title": "Boxes"}], 1.0, 1),
        ([{"title": "Boxes"}, {"title": "Boxes"}], 1.0, 0),
    ],
)
def test_wrong_new_records_cost(tasks: list[dict[str, str]], partial_below: float, guard: int) -> None:
    built = project()
    state = run(built, ("projects_create", {"name": "Move"}))
    new = state.changes()[0].id
    for task in tasks:
        Direct(built).call(state, "projects_tasks_create", {"project_id": new, **task})
    found = grade(state, built.assertions)
    assert 0 < found.partial < partial_below and not found.strict
    assert len(broken(found)) == guard


def test_tasks_in_another_project_are_not_the_ones_asked_for() -> None:
    built = project()
    old = next(iter(built.tables["projects.projects"]))
    state = run(
        built,
        ("projects_create", {"name": "Move"}),
        ("projects_tasks_create", {"project_id": old, "title": "Boxes"}),
        ("projects_tasks_create", {"project_id": old, "title": "Rent a van"}),
    )
    assert broken(grade(state, built.assertions)) == ["nothing else changed in projects.tasks"]


def test_an_extra_copy_of_a_mail_fails_the_objective() -> None:
    b = builder()
    b.background("mail", 10)
    b.request(*PHRASINGS)
    b.do("mail_messages_send", to=["a@b.example"], subject=free("s"), body=says("It is 20", 20))
    built = b.finish()
    mail = {"to": ["A@b.example"], "subject": "Hello", "body": "20 it is"}
    assert grade(run(built, ("mail_messages_send", mail)), built.assertions).strict
    assert not grade(
        run(built, ("mail_messages_send", {**mail, "cc": ["x@y.example"]})), built.assertions
    ).strict
    drafted = {"to": mail["to"], "subject": "Hello", "body": "20 it is"}
    assert grade(run(built, ("mail_drafts_create", drafted)), built.assertions).partial == 0


def test_cells_of_a_row_are_checked_one_by_one() -> None:
    b = builder()
    sheet = b.add("sheets.spreadsheets", name="Plan", columns=["A", "B"])
    row = b.add("sheets.rows", spreadsheet_id=sheet["id"], values={"A": 1, "B": 2, "C": "x"})
    b.request(*PHRASINGS)
    b.do("sheets_rows_update", id=row["id"], values={"A": 5, "C": free("done")})
    built = b.finish()
    good = run(built, ("sheets_rows_update", {"id": row["id"], "values": {"A": 5.0}}))
    assert grade(good, built.assertions).strict
    worse = run(built, ("sheets_rows_update", {"id": row["id"], "values": {"A": 5, "B": 9}}))
    assert broken(grade(worse, built.assertions)) == ["nothing else changed in sheets.rows"]


def test_a_new_row_has_no_other_cells() -> None:
    b = builder()
    sheet = b.add("sheets.spreadsheets", name="Plan")
    b.request(*PHRASINGS)
    b.do("sheets_rows_create", also("values.C"), spreadsheet_id=sheet["id"], values={"A": 1, "B": free("x")})
    built = b.finish()

    def strict(**values: object) -> bool:
        made = run(built, ("sheets_rows_create", {"spreadsheet_id": sheet["id"], "values": values}))
        return grade(made, built.assertions).strict

    assert strict(A=1, B="y") and strict(A=1, C="note", D="")
    assert not strict(A=1, B="y", D=0)


def test_an_optional_record_is_allowed_once() -> None:
    b = builder()
    b.background("crm", 8)
    account = b.add("crm.accounts", name="Pine")
    b.allow(account, "crm.accounts", "notes")
    b.optional("crm.activities", account_id=account["id"], kind=one_of("note", "call"))
    b.request(*PHRASINGS)
    b.do("crm_accounts_update", id=account["id"], status="customer")
    built = b.finish()
    update = ("crm_accounts_update", {"id": account["id"], "status": "customer"})
    noted = ("crm_accounts_update", {"id": account["id"], "notes": "called"})
    activity = ("crm_activities_create", {"kind": "note", "subject": "x", "account_id": account["id"]})
    for extra in ([], [noted], [activity], [noted, activity]):
        assert grade(run(built, update, *extra), built.assertions).strict
    assert not grade(run(built, update, activity, activity), built.assertions).strict


def test_a_new_row_may_hold_one_of_several_values() -> None:
    b = builder()
    sheet = b.add("sheets.spreadsheets", name="Costs", columns=["Item", "Amount"])
    b.request(*PHRASINGS)
    b.look("sheets_rows_list", spreadsheet_id=sheet["id"])
    wanted = {"Item": "Desk", "Amount": one_of("12", "12.00")}
    b.do("sheets_rows_create", spreadsheet_id=sheet["id"], values=wanted)
    built = b.finish()

    def partial(amount: str) -> float:
        values = {"Item": "Desk", "Amount": amount}
        made = run(built, ("sheets_rows_create", {"spreadsheet_id": sheet["id"], "values": values}))
        return grade(made, built.assertions).partial

    assert partial("12.00") == 1.0
    assert partial("13") < 1.0
