"""Right solutions in other words than the reference's, and wrong ones that sound alike."""

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from importlib import import_module
from typing import Any

import pytest

from mcp_bench.servers.contracts import ToolCall
from mcp_bench.servers.saasworld import BENCHMARK
from mcp_bench.servers.saasworld.authoring.builder import Built
from mcp_bench.servers.saasworld.authoring.family import all_families
from mcp_bench.servers.saasworld.authoring.wording import plain
from mcp_bench.servers.saasworld.grading.matchers import Matcher, fits
from mcp_bench.servers.saasworld.grading.view import View
from mcp_bench.servers.saasworld.tasks import build, parse
from tests.support.saas import graded, kinds, opened, play, solved, task_id

pytestmark = pytest.mark.component

TRIES = 30
"""Numbers in which each kind of task has what a test needs."""

REFUSALS = (
    "Your request was not approved, for the reasons that our policy gives.",
    "Your request was turned down.",
    "Your request has been refused, as the policy says.",
    "I'm afraid the answer is no.",
    "Unfortunately, there is nothing I can do.",
    "Sorry, we can\N{RIGHT SINGLE QUOTATION MARK}t do that.",
    "We cannot make an exception here.",
    "We are unable to help with this.",
    "We regret to tell you that it did not work out.",
    "I have to decline.",
    "It has been rejected under our policy.",
    "This is denied, sorry.",
    "We won't be able to do this.",
    "You are not eligible for this.",
    "This does not qualify under our rules.",
    "That isn't allowed.",
    "We decided against it.",
    "It could not be granted.",
    "The request hasn't been accepted.",
    "It doesn't meet the conditions of the policy.",
    "I must say no to this one.",
    "It can no longer be done.",
    "This is declined. Only what meets the rules is approved, and an earlier request was approved already.",
)
GRANTS = (
    "Good news! As our policy allows, your request is approved and you will get it.",
    "Sorry for the delay! Good news: you get the discount.",
    "Your request has been approved.",
    "Your request is granted. Sorry that it took so long.",
    "Yes, of course, that is fine.",
    "Happy to confirm: it is done.",
    "Agreed, this is well within our policy.",
    "We accept, sorry for the wait.",
    "It is approved, even outside office hours.",
    "Great news: it is a yes!",
    "You will get it next week, as the policy says.",
    "We would love to. Welcome!",
    "All set, enjoy!",
    "Of course, we are glad to do that.",
    "Sure, no problem at all.",
    "I won't keep you waiting: your request was approved.",
    "I can't complain. Great news, it is a yes.",
    "Unfortunately a little late, but your request was accepted.",
    "Approved as asked.",
    "That works for us, and I have made the change.",
)


SILENT = {
    ("sales-discount-request", 2),
    ("hr-applicant-screening", 2),
    ("hr-leave-decision", 2),
    ("hr-team-holidays", 2),
    ("support-goodwill-credit", 3),
    ("operations-quote-comparison", 3),
}
"""Levels of refusing families at which nobody is told of a refusal."""


def refusing_kinds() -> list[Any]:
    """Return the kinds of tasks in which somebody is refused something."""
    refusing = {f.id for f in all_families() if hasattr(import_module(f.build.__module__), "REFUSAL")}
    refusing.remove("hr-handbook-release")  # it reports what is missing, and may do so in nearly any words
    chosen = [kind for kind in kinds() if kind[0] in refusing and kind[:2] not in SILENT]
    return [pytest.param(kind, id=f"{kind[0]}.{kind[1]}") for kind in chosen]


def task_with(kind: tuple[str, int, str], has: Callable[[Built], object]) -> str:
    tasks = (task_id(kind, number) for number in range(TRIES))
    return next(task for task in tasks if has(build(parse(task))))


def refusals(built: Built) -> list[tuple[str, str, Matcher, dict[str, Matcher]]]:
    """Return where a new text has to refuse: collection, field, matcher, and the matchers of the record."""
    return [
        (assertion["collection"], field, matcher, assertion["where"])
        for assertion in built.assertions
        if assertion["check"] == "created"
        for field, matcher in assertion["where"].items()
        if any("unfortunately" in group for group in matcher.get("mentions", ()))
    ]


def accepted(task: str, texts: tuple[str, ...]) -> list[str]:
    """Return the texts with which the solution is right, each in place of its first refusal."""
    world = solved(task)
    view = View(world.state)
    collection, field, matcher, where = refusals(build(parse(task)))[0]
    record = next(row for row in view.created(collection) if fits(row, where, view))
    facts = [group[0] for group in matcher["mentions"] if "unfortunately" not in group]

    def strict(text: str) -> bool:
        world.state.update(collection, record, **{field: f"Hello! {text} {', '.join(facts)}"})
        return graded(world).strict

    return [text for text in texts if strict(text)]


@pytest.mark.parametrize("refusing", refusing_kinds())
def test_a_refusal_is_one_in_any_words_and_a_grant_is_none(refusing: tuple[str, int, str]) -> None:
    task = task_with(refusing, refusals)
    assert accepted(task, REFUSALS) == list(REFUSALS)
    assert accepted(task, GRANTS) == []


def calls_with(task: str, tool: str, change: Callable[[dict[str, Any]], dict[str, Any]]) -> list[ToolCall]:
    """Return the reference's calls, with other arguments for one tool."""
    return [
        ToolCall(name=call.name, arguments=change(dict(call.arguments))) if call.name == tool else call
        for call in BENCHMARK.reference(task).calls
    ]


def plans(built: Built) -> bool:
    return any(step.operation.name == "calendar_events_create" for step in built.steps)


MEETINGS = (
    *("sales-demo-slot", "sales-closed-deal", "support-incident-close-out", "support-survey-callbacks"),
    *("marketing-content-overdue", "marketing-trade-show-leads", "operations-maintenance-window"),
    *("operations-project-closeout", "operations-site-shutdown", "finance-close-checklist"),
    *("hr-interview-round", "hr-onboarding", "hr-leave-decision"),
)


@pytest.mark.parametrize("family", MEETINGS)
def test_the_user_may_be_invited_to_their_own_meeting(family: str) -> None:
    task = task_with(max(kind for kind in kinds() if kind[0] == family), plans)
    right = family != "hr-leave-decision"  # its policy says "only their manager invited"
    me = build(parse(task)).settings["me"]["email"]

    def strict(change: Callable[[list[str]], list[str]]) -> bool:
        world = opened(task)
        results = play(
            world,
            calls_with(task, "calendar_events_create", lambda a: {**a, "attendees": change(a["attendees"])}),
        )
        assert not any(result.is_error for result in results)
        return graded(world).strict

    assert strict(lambda invited: [*dict.fromkeys([*invited, me])]) is right
    assert not strict(lambda invited: [*invited, "someone@else.example"])


@pytest.mark.parametrize("number", range(4))
def test_the_time_of_a_demo_may_be_said_in_usual_ways(number: int) -> None:
    task = f"sales-demo-slot.3.test.{number}"

    def strict(say: Callable[[int], str]) -> bool:
        def reworded(arguments: dict[str, Any]) -> dict[str, Any]:
            body = re.sub(r"([0-9]+):00", lambda found: say(int(found[1])), arguments["body"])
            return {**arguments, "body": body}

        world = opened(task)
        play(world, calls_with(task, "mail_messages_send", reworded))
        return graded(world).strict

    def twelve(form: str) -> Callable[[int], str]:
        return lambda hour: form.format((hour - 1) % 12 + 1, "ap"[hour > 11])

    for form in ("{0}:00{1}m", "{0} {1}m", "{0}{1}m", "{0}:00 {1}.m.", "{0} {1}.m."):
        assert strict(twelve(form)), form
    assert strict(lambda hour: f"{hour:02d}:00")
    assert not strict(lambda hour: f"{hour + 1}:00")


@pytest.mark.parametrize("place", ["4.train.0", "4.train.1", "4.dev.1", "5.train.0", "5.train.2"])
def test_the_start_of_a_webinar_may_be_said_in_usual_ways(place: str) -> None:
    task = f"marketing-webinar-seats.{place}"

    def strict(form: str, later: int = 0) -> bool:
        def said(found: re.Match[str]) -> str:
            hour = int(found[1]) + later
            return form.format((hour - 1) % 12 + 1, found[2], "ap"[hour > 11])

        def reworded(arguments: dict[str, Any]) -> dict[str, Any]:
            return {**arguments, "body": re.sub(r"([0-9]+):([0-9]+)", said, arguments["body"])}

        world = opened(task)
        play(world, calls_with(task, "mail_messages_send", reworded))
        return graded(world).strict

    for form in ("{0}:{1}{2}m", "{0}:{1} {2}m", "{0}:{1}{2}.m.", "{0}:{1} {2}.m."):
        assert strict(form), form
        assert not strict(form, later=1), form


@pytest.mark.parametrize("number", range(3))
def test_a_purchase_order_may_carry_the_deadline(number: int) -> None:
    """The request of level 3 has it in days, and the policy of the other levels wants it."""
    task = f"operations-quote-comparison.3.test.{number}"
    built = build(parse(task))
    days = re.search(r"within (\d+) days", built.prompt)
    assert days is not None
    needed_by = (datetime.fromtimestamp(built.now, UTC) + timedelta(days=int(days[1]))).date().isoformat()

    def strict(**more: str | int) -> bool:
        world = opened(task)
        play(world, calls_with(task, "orders_purchase_orders_create", lambda a: {**a, **more}))
        return graded(world).strict

    assert strict() and strict(needed_by=needed_by)
    assert not strict(needed_by=needed_by, quantity=1)


def test_a_label_that_is_taken_off_again_breaks_nothing() -> None:
    task = "simple-mail-filing.2.train.0"
    world = solved(task)
    changed = {change.id for change in world.state.changes()}
    message = next(
        row for row in world.state.rows("mail.messages") if row["id"] not in changed and "labels" not in row
    )
    label = next(iter(world.state.rows("mail.labels")))["name"]
    on, off = (
        ToolCall(name="mail_messages_label", arguments={"id": message["id"], verb: [label]})
        for verb in ("add", "remove")
    )
    play(world, [on])
    assert not graded(world).strict
    play(world, [off])
    assert graded(world).strict


@pytest.mark.parametrize("number", [10**400, -(10**400), 1e300], ids=["integer", "negative", "float"])
def test_a_huge_number_in_a_cell_is_refused(number: float) -> None:
    task = "marketing-campaign-closeout.5.train.5"
    world = opened(task)
    results = play(
        world,
        calls_with(
            task,
            "sheets_rows_create",
            lambda a: {**a, "values": {**a["values"], "Cost per lead": number}},
        ),
    )
    (refused,) = (result.text for result in results if result.is_error)
    assert "Cost per lead" in refused and "limit" in refused
    assert not graded(world).strict


ROWS = ("sheets_rows_create", "sheets_rows_update")


def numbers(built: Built) -> list[float]:
    """Return the numbers that the reference enters in cells."""
    entered = [step.arguments["values"] for step in built.steps if step.operation.name in ROWS]
    return [cell for values in entered for cell in values.values() if isinstance(cell, int | float)]


NUMBERED = (
    *(("simple-sheet-entry", 2), ("sales-weighted-forecast", 3), ("sales-weighted-forecast", 4)),
    *(("finance-claims-queue", 5), ("finance-three-way-match", 3), ("finance-three-way-match", 5)),
    *(("hr-filled-position", 4), ("hr-offboarding", 5), ("hr-referral-bonus", 3), ("hr-referral-bonus", 5)),
    *(("marketing-campaign-closeout", 5), ("marketing-duplicate-subscribers", 4)),
    *(("marketing-sponsorship-reply", 4), ("support-incident-close-out", 5), ("support-queue-figures", 3)),
)


@pytest.mark.parametrize(("family", "level"), NUMBERED)
def test_a_number_may_be_entered_in_a_cell_as_text(family: str, level: int) -> None:
    (kind,) = (kind for kind in kinds() if kind[:2] == (family, level))
    task = task_with(kind, numbers)

    def strict(write: Callable[[float], object]) -> bool:
        def entered(call: ToolCall) -> ToolCall:
            cells = dict(call.arguments["values"])
            given = {key: write(cell) for key, cell in cells.items() if isinstance(cell, int | float)}
            return ToolCall(name=call.name, arguments={**call.arguments, "values": cells | given})

        world = opened(task)
        calls = BENCHMARK.reference(task).calls
        play(world, [entered(call) if call.name in ROWS else call for call in calls])
        return graded(world).strict

    assert strict(plain)
    assert not strict(lambda cell: cell + 1) and not strict(lambda cell: plain(cell + 1))


def test_a_bonus_that_is_void_is_nothing_in_any_spelling() -> None:
    """The amount of an open row is 0 from the start, so that the reference does not change it."""
    task = "hr-referral-bonus.3.test.0"
    void = next(
        call
        for call in BENCHMARK.reference(task).calls
        if call.name == "sheets_rows_update" and call.arguments["values"]["Status"] == "void"
    )

    def strict(amount: object) -> bool:
        world = solved(task)
        play(world, [ToolCall(name=void.name, arguments={**void.arguments, "values": {"Amount": amount}})])
        return graded(world).strict

    assert strict(0) and strict("0")
    assert not strict(500) and not strict("500")


def test_a_column_that_the_sheet_does_not_have_is_refused() -> None:
    task = "simple-sheet-entry.2.test.0"
    world = opened(task)
    more = {"Approved by": "nobody"}
    added = calls_with(task, "sheets_rows_create", lambda a: {**a, "values": {**a["values"], **more}})
    (refused,) = (result.text for result in play(world, added) if result.is_error)
    columns = next(step for step in build(parse(task)).steps if step.writes).arguments["values"]
    assert "no column 'Approved by'" in refused and all(column in refused for column in columns)
    assert not graded(world).strict
    row = next(iter(world.state.rows("sheets.rows")))
    for values in (more, dict.fromkeys(row["values"], "x")):
        arguments = {"id": row["id"], "values": values}
        (result,) = play(world, [ToolCall(name="sheets_rows_update", arguments=arguments)])
        assert result.is_error is (values == more)
