"""Helpdesk: customers, tickets, comments, help articles."""

from typing import Any

from mcp_bench.servers.saasworld.engine.api_error import ApiError, invalid
from mcp_bench.servers.saasworld.engine.app import App
from mcp_bench.servers.saasworld.engine.fields import (
    choice,
    date,
    email,
    flag,
    ident,
    moment,
    prose,
    ref,
    text,
    texts,
)
from mcp_bench.servers.saasworld.engine.operation import Arguments
from mcp_bench.servers.saasworld.engine.resource import Resource
from mcp_bench.servers.saasworld.engine.seeder import Seeder
from mcp_bench.servers.saasworld.engine.state import State

CATEGORIES = ("billing", "bug", "how_to", "account", "shipping", "feature_request")
PRIORITIES = ("low", "normal", "high", "urgent")

CUSTOMERS = Resource(
    "helpdesk",
    "customers",
    "customer",
    "cus",
    "People who write to support.",
    (
        text("name", "Full name."),
        email("email", "Mail address."),
        text("company", "Company.", filter=True),
        choice("plan", "Plan they pay for.", "free", "pro", "enterprise"),
        flag("vip", "Whether they come first."),
        prose("notes", "Free notes."),
    ),
    ("list", "get", "search", "update"),
)
TICKETS = Resource(
    "helpdesk",
    "tickets",
    "ticket",
    "tkt",
    "Requests for support.",
    (
        text("number", "Number that people use for it.", system=True, auto="number:T"),
        ref("customer_id", "helpdesk.customers", "Customer who asked.", required=True),
        prose("subject", "Subject.", required=True),
        prose("description", "What the customer wrote.", detail=True),
        choice("status", "State.", "open", "pending", "solved", "closed", default="open"),
        choice("priority", "How urgent it is.", *PRIORITIES, default="normal"),
        choice("category", "What it is about.", *CATEGORIES),
        email("assignee_email", "Colleague who handles it.", readonly=True),
        texts("tags", "Tags.", filter=True),
        flag("escalated", "Whether it was escalated.", readonly=True),
        ref("merged_into", "helpdesk.tickets", "Ticket that it became part of.", readonly=True),
        moment("created_at", "When it came in", system=True, auto="now"),
    ),
    ("list", "get", "search", "create", "update"),
)
COMMENTS = Resource(
    "helpdesk",
    "comments",
    "comment",
    "cmt",
    "Answers and internal notes on tickets.",
    (
        ref("ticket_id", "helpdesk.tickets", "Ticket it belongs to.", required=True),
        prose("body", "Text.", required=True),
        flag("public", "Whether the customer sees it.", required=True),
        email("author", "Who wrote it.", system=True, auto="me"),
        moment("created_at", "When it was written", system=True, auto="now"),
    ),
    ("list", "create"),
)
ARTICLES = Resource(
    "helpdesk",
    "articles",
    "article",
    "art",
    "Help articles and answers to use.",
    (
        text("title", "Title."),
        prose("body", "Text.", detail=True),
        choice("category", "What it is about.", *CATEGORIES),
        date("updated_on", "Last change"),
    ),
    ("list", "get", "search"),
)


@TICKETS.action(
    "assign",
    "Give a ticket to a colleague.",
    ident("ticket"),
    email("assignee_email", "Colleague.", required=True),
)
def assign(state: State, args: Arguments) -> dict[str, Any]:
    ticket = state.need("helpdesk.tickets", args["id"])
    if ticket["status"] == "closed":
        raise ApiError("conflict", "The ticket is closed.")
    return state.update("helpdesk.tickets", ticket, assignee_email=args["assignee_email"])


@TICKETS.action(
    "merge",
    "Close a ticket as part of another one of the same customer.",
    ident("ticket"),
    ref("into_id", "helpdesk.tickets", "Ticket that stays.", required=True),
)
def merge(state: State, args: Arguments) -> dict[str, Any]:
    ticket = state.need("helpdesk.tickets", args["id"])
    stays = state.need("helpdesk.tickets", args["into_id"], "into_id")
    if ticket["id"] == stays["id"]:
        raise invalid("into_id", "A ticket cannot be merged into itself.")
    if ticket["customer_id"] != stays["customer_id"]:
        raise ApiError("conflict", "The tickets are of different customers.", "into_id")
    if ticket["status"] == "closed":
        raise ApiError("conflict", "The ticket is closed.")
    return state.update("helpdesk.tickets", ticket, status="closed", merged_into=stays["id"])


@TICKETS.action("escalate", "Hand a ticket up: it becomes urgent.", ident("ticket"), prose("reason", "Why."))
def escalate(state: State, args: Arguments) -> dict[str, Any]:
    ticket = state.need("helpdesk.tickets", args["id"])
    if ticket["status"] in ("solved", "closed"):
        raise ApiError("conflict", f"The ticket is {ticket['status']}.")
    return state.update("helpdesk.tickets", ticket, escalated=True, priority="urgent")


PROBLEMS = (
    ("Cannot log in", "account", "Since {day} my password is not taken any more."),
    ("Invoice is wrong", "billing", "You charged {amount}, we agreed on less."),
    ("Parcel has not arrived", "shipping", "It was to be in {city} by {day}."),
    ("How do I export data?", "how_to", "I need all of it by {day}."),
    ("App crashes on start", "bug", "It started on {day}, on all devices in {city}."),
    ("Dark mode please", "feature_request", "Our team in {city} works late."),
)


def populate(s: Seeder, count: int) -> None:
    for _ in range(max(1, count // 3)):
        company = s.company()
        person = s.person(company)
        customer = s.add(
            "helpdesk.customers",
            name=person.name,
            email=person.email,
            company=company.name,
            plan=s.pick(("free", "pro", "pro", "enterprise")),
            vip=s.chance(0.1),
        )
        for _ in range(s.integer(1, 2)):
            subject, category, body = s.pick(PROBLEMS)
            ticket = s.add(
                "helpdesk.tickets",
                customer_id=customer["id"],
                subject=subject,
                description=body.format(day=s.day(-30, 10), amount=f"${s.amount(20, 900)}", city=s.city()),
                status=s.pick(("open", "open", "pending", "solved")),
                priority=s.pick(PRIORITIES),
                category=category,
                assignee_email=s.pick(s.staff).email,
                created_at=s.moment(-60, -1),
            )
        text = s.pick(("We look into it.", "Asked for more details.", "Waiting for the warehouse."))
        s.add(
            "helpdesk.comments",
            ticket_id=ticket["id"],
            body=text,
            public=s.chance(0.5),
            author=s.pick(s.staff).email,
        )


APP = App(
    "helpdesk",
    "Customer support.",
    (CUSTOMERS, TICKETS, COMMENTS, ARTICLES),
    populate,
    (assign, merge, escalate),
)
