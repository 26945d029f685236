"""Expenses: claims by employees, budgets of departments."""

from typing import Any

from mcp_bench.servers.saasworld.engine.api_error import ApiError
from mcp_bench.servers.saasworld.engine.app import App
from mcp_bench.servers.saasworld.engine.fields import choice, date, email, flag, ident, number, prose, text
from mcp_bench.servers.saasworld.engine.operation import Arguments
from mcp_bench.servers.saasworld.engine.resource import Resource
from mcp_bench.servers.saasworld.engine.seeder import DEPARTMENTS, Seeder
from mcp_bench.servers.saasworld.engine.state import Record, State

CATEGORIES = ("travel", "meals", "lodging", "software", "equipment", "training")
CURRENCIES = ("USD", "EUR", "GBP", "JPY")

CLAIMS = Resource(
    "expenses",
    "claims",
    "claim",
    "clm",
    "Money that employees spent and want back.",
    (
        email("employee_email", "Who spent it.", required=True, key=True),
        text("title", "What it was for.", required=True),
        choice("category", "Category.", *CATEGORIES, required=True),
        number("amount", "Amount.", required=True),
        choice("currency", "Currency.", *CURRENCIES, required=True),
        date("spent_on", "Day it was spent", required=True),
        flag("has_receipt", "Whether a receipt is attached."),
        choice(
            "status",
            "State.",
            "submitted",
            "approved",
            "rejected",
            "paid",
            readonly=True,
            default="submitted",
        ),
        prose("note", "What the employee wrote."),
        prose("decision_note", "What was said about the decision.", readonly=True),
    ),
    ("list", "get", "search", "create"),
)
BUDGETS = Resource(
    "expenses",
    "budgets",
    "budget",
    "bud",
    "What departments may spend in a quarter, in USD.",
    (
        choice("department", "Department.", *DEPARTMENTS),
        choice("category", "Category.", *CATEGORIES),
        text("quarter", "Quarter, such as 2026-Q1.", filter=True),
        number("limit_usd", "Most that may be spent."),
        number("spent_usd", "Spent so far."),
    ),
    ("list", "get", "update"),
)


def _submitted(state: State, claim_id: str) -> Record:
    claim = state.need("expenses.claims", claim_id)
    if claim["status"] != "submitted":
        raise ApiError("conflict", f"The claim is {claim['status']} already.")
    return claim


@CLAIMS.action("approve", "Approve a claim: it will be paid.", ident("claim"))
def approve(state: State, args: Arguments) -> dict[str, Any]:
    return state.update("expenses.claims", _submitted(state, args["id"]), status="approved")


@CLAIMS.action(
    "reject", "Turn a claim down and say why.", ident("claim"), prose("decision_note", "Why.", required=True)
)
def reject(state: State, args: Arguments) -> dict[str, Any]:
    claim = _submitted(state, args["id"])
    return state.update("expenses.claims", claim, status="rejected", decision_note=args["decision_note"])


def populate(s: Seeder, count: int) -> None:
    for _ in range(count):
        category = s.pick(CATEGORIES)
        s.add(
            "expenses.claims",
            employee_email=s.pick(s.staff).email,
            title=f"{category.capitalize()} {s.city()}",
            category=category,
            amount=s.amount(10, 1500, 5),
            currency=s.pick(CURRENCIES[:3]),
            spent_on=s.day(-90, -1),
            has_receipt=s.chance(0.8),
            status=s.pick(("submitted", "approved", "rejected", "paid")),
        )
    quarter = f"{s.today.year}-Q{(s.today.month + 2) // 3}"
    for department in DEPARTMENTS:
        limit = s.amount(2000, 20000, 500)
        spent, category = s.amount(0, limit, 50), s.pick(CATEGORIES)
        s.add(
            "expenses.budgets",
            department=department,
            category=category,
            quarter=quarter,
            limit_usd=limit,
            spent_usd=spent,
        )


APP = App("expenses", "Expense claims and budgets.", (CLAIMS, BUDGETS), populate, (approve, reject))
