"""Billing: customers, invoices, payments, refunds, subscriptions, credit notes."""

from typing import Any

from mcp_bench.servers.saasworld.engine.api_error import ApiError, invalid
from mcp_bench.servers.saasworld.engine.app import App
from mcp_bench.servers.saasworld.engine.fields import (
    choice,
    date,
    email,
    flag,
    ident,
    integer,
    moment,
    number,
    prose,
    ref,
    text,
)
from mcp_bench.servers.saasworld.engine.operation import Arguments
from mcp_bench.servers.saasworld.engine.resource import Resource, insert
from mcp_bench.servers.saasworld.engine.seeder import Seeder
from mcp_bench.servers.saasworld.engine.state import Record, State, require_status

CURRENCIES = ("USD", "EUR", "GBP", "JPY")
METHODS = ("card", "bank_transfer", "check")
PLANS = ("starter", "team", "business", "enterprise")

CUSTOMERS = Resource(
    "billing",
    "customers",
    "customer",
    "bcu",
    "Companies that we send invoices to.",
    (
        text("name", "Company name."),
        email("email", "Address for invoices."),
        choice("currency", "Currency they pay in.", *CURRENCIES),
        choice("payment_terms", "Days until an invoice is due.", "net_15", "net_30", "net_45", "net_60"),
        text("tax_id", "Tax number."),
        text("city", "City."),
        prose("notes", "Free notes."),
    ),
    ("list", "get", "search", "update"),
)


def keep_issued(state: State, record: Record, before: Record | None) -> Record:
    """Refuse to change the amount or the customer of an invoice that is issued."""
    if before is not None and before["status"] != "draft":
        for name in ("amount", "currency", "customer_id"):
            if record.get(name) != before.get(name):
                raise ApiError(
                    "conflict", f"The invoice is {before['status']}: only a draft can change.", name
                )
    return record


INVOICES = Resource(
    "billing",
    "invoices",
    "invoice",
    "inv",
    "Invoices to customers; a new one is a draft.",
    (
        text("number", "Number that people use for it.", system=True, auto="number:INV", filter=True),
        ref("customer_id", "billing.customers", "Customer who pays.", required=True),
        number("amount", "Total.", required=True),
        choice("currency", "Currency of the total.", *CURRENCIES, required=True),
        choice(
            "status",
            "State.",
            "draft",
            "open",
            "paid",
            "void",
            "uncollectible",
            readonly=True,
            default="draft",
        ),
        number("amount_paid", "Paid so far.", readonly=True, default=0),
        date("issue_date", "Day of issue", system=True, auto="today"),
        date("due_date", "Day it is due"),
        prose("memo", "Text on the invoice."),
    ),
    ("list", "get", "search", "create", "update"),
    rule=keep_issued,
)
PAYMENTS = Resource(
    "billing",
    "payments",
    "payment",
    "pay",
    "Money received for invoices.",
    (
        ref("invoice_id", "billing.invoices", "Invoice it pays."),
        number("amount", "Amount received.", required=True),
        choice("currency", "Currency.", *CURRENCIES, required=True),
        choice("method", "How it was paid.", *METHODS),
        date("received_on", "Day it arrived"),
        text("reference", "Reference of the bank or the card."),
        choice("status", "State.", "succeeded", "partially_refunded", "refunded", default="succeeded"),
        number("refunded_amount", "Paid back so far.", default=0),
    ),
    ("list", "get", "search"),
)
REFUNDS = Resource(
    "billing",
    "refunds",
    "refund",
    "ref",
    "Money paid back.",
    (
        ref("payment_id", "billing.payments", "Payment it comes from.", required=True),
        number("amount", "Amount, at most what is left of the payment.", least=0.01, required=True),
        choice(
            "reason", "Why.", "duplicate", "requested_by_customer", "product_issue", "goodwill", required=True
        ),
        prose("note", "Internal note."),
        moment("created_at", "When it was made", system=True, auto="now"),
    ),
    ("list", "get"),
)
SUBSCRIPTIONS = Resource(
    "billing",
    "subscriptions",
    "subscription",
    "sub",
    "Plans that customers pay for regularly.",
    (
        ref("customer_id", "billing.customers", "Customer."),
        choice("plan", "Plan.", *PLANS),
        integer("seats", "Number of seats.", least=1),
        number("price_per_seat", "Price per seat and month."),
        choice("currency", "Currency.", *CURRENCIES),
        number("discount_percent", "Discount in percent."),
        date("renews_on", "Next renewal"),
        choice("status", "State.", "active", "paused", "cancelled", readonly=True, default="active"),
        flag("cancel_at_period_end", "Whether it ends at the next renewal.", readonly=True),
    ),
    ("list", "get", "update"),
)
CREDITS = Resource(
    "billing",
    "credits",
    "credit note",
    "crn",
    "Amounts that customers can use for later invoices.",
    (
        ref("customer_id", "billing.customers", "Customer.", required=True),
        ref("invoice_id", "billing.invoices", "Invoice it is about."),
        number("amount", "Amount.", least=0.01, required=True),
        choice("currency", "Currency.", *CURRENCIES, required=True),
        prose("note", "Reason."),
    ),
    ("list", "create"),
)


@INVOICES.action("issue", "Issue a draft: it is sent and owed from now on.", ident("invoice"))
def issue(state: State, args: Arguments) -> dict[str, Any]:
    invoice = require_status(state.need("billing.invoices", args["id"]), "invoice", "draft")
    return state.update("billing.invoices", invoice, status="open")


@INVOICES.action(
    "void", "Void an invoice: it is not owed any more.", ident("invoice"), prose("reason", "Why.")
)
def void(state: State, args: Arguments) -> dict[str, Any]:
    invoice = require_status(state.need("billing.invoices", args["id"]), "invoice", "draft", "open")
    if invoice["amount_paid"] > 0:
        raise ApiError("conflict", "The invoice is partly paid: refund the payment first.")
    return state.update("billing.invoices", invoice, status="void")


@INVOICES.action("write_off", "Give up on an open invoice.", ident("invoice"), prose("reason", "Why."))
def write_off(state: State, args: Arguments) -> dict[str, Any]:
    invoice = require_status(state.need("billing.invoices", args["id"]), "invoice", "open")
    return state.update("billing.invoices", invoice, status="uncollectible")


@PAYMENTS.action(
    "record",
    "Record money that arrived for an open invoice; once all is paid the invoice is paid.",
    ref("invoice_id", "billing.invoices", "Invoice.", required=True),
    number("amount", "Amount, at most what is still owed.", least=0.01, required=True),
    choice("method", "How it was paid.", *METHODS, required=True),
    date("received_on", "Day it arrived, by default today"),
    text("reference", "Reference of the bank or the card."),
    path="/payments/record",
)
def record(state: State, args: Arguments) -> dict[str, Any]:
    invoice = require_status(
        state.need("billing.invoices", args["invoice_id"], "invoice_id"), "invoice", "open"
    )
    paid = round(invoice["amount_paid"] + args["amount"], 2)
    if paid > invoice["amount"]:
        raise invalid("amount", f"Only {invoice['amount'] - invoice['amount_paid']:.2f} is still owed.")
    status = "paid" if paid == invoice["amount"] else "open"
    state.update("billing.invoices", invoice, amount_paid=paid, status=status)
    values = {"received_on": state.today(), **args}
    return insert(state, PAYMENTS, currency=invoice["currency"], **values)


@REFUNDS.action("create", "Pay money back. It cannot be undone.", *REFUNDS.fields[:4], path="/refunds")
def refund(state: State, args: Arguments) -> dict[str, Any]:
    payment = state.need("billing.payments", args["payment_id"], "payment_id")
    back = round(payment["refunded_amount"] + args["amount"], 2)
    if back > payment["amount"]:
        left = payment["amount"] - payment["refunded_amount"]
        raise invalid("amount", f"Only {left:.2f} {payment['currency']} of the payment is left.")
    status = "refunded" if back == payment["amount"] else "partially_refunded"
    state.update("billing.payments", payment, refunded_amount=back, status=status)
    return insert(state, REFUNDS, **args)


@SUBSCRIPTIONS.action(
    "cancel",
    "Cancel a subscription, at once or at its next renewal.",
    ident("subscription"),
    flag("at_period_end", "Whether it runs until the next renewal.", required=True),
    prose("reason", "Why."),
)
def cancel(state: State, args: Arguments) -> dict[str, Any]:
    found = require_status(
        state.need("billing.subscriptions", args["id"]), "subscription", "active", "paused"
    )
    if args["at_period_end"]:
        return state.update("billing.subscriptions", found, cancel_at_period_end=True)
    return state.update("billing.subscriptions", found, status="cancelled")


@SUBSCRIPTIONS.action("pause", "Pause a subscription.", ident("subscription"))
def pause(state: State, args: Arguments) -> dict[str, Any]:
    found = require_status(state.need("billing.subscriptions", args["id"]), "subscription", "active")
    return state.update("billing.subscriptions", found, status="paused")


@SUBSCRIPTIONS.action("resume", "Resume a paused subscription.", ident("subscription"))
def resume(state: State, args: Arguments) -> dict[str, Any]:
    found = require_status(state.need("billing.subscriptions", args["id"]), "subscription", "paused")
    return state.update("billing.subscriptions", found, status="active")


def populate(s: Seeder, count: int) -> None:
    for _ in range(max(1, count // 4)):
        company, currency = s.company(), s.pick(CURRENCIES[:3])
        customer = s.add(
            "billing.customers",
            name=company.name,
            email=f"accounts@{company.domain}",
            currency=currency,
            payment_terms=s.pick(("net_15", "net_30", "net_45", "net_60")),
            tax_id=f"{s.integer(10, 99)}-{s.integer(1000000, 9999999)}",
            city=s.city(),
        )
        amount, status, issued = (
            s.amount(200, 20000, 50),
            s.pick(("open", "paid", "paid", "draft")),
            s.day(-120, -5),
        )
        invoice = s.add(
            "billing.invoices",
            customer_id=customer["id"],
            amount=amount,
            currency=currency,
            status=status,
            amount_paid=amount if status == "paid" else 0,
            issue_date=issued,
            due_date=s.day(-60, 50),
        )
        if status == "paid":
            s.add(
                "billing.payments",
                invoice_id=invoice["id"],
                amount=amount,
                currency=currency,
                method=s.pick(METHODS),
                received_on=s.day(-60, -1),
                reference=f"TX{s.integer(100000, 999999)}",
            )
        s.add(
            "billing.subscriptions",
            customer_id=customer["id"],
            plan=s.pick(PLANS),
            seats=s.integer(2, 200),
            price_per_seat=s.pick((9, 15, 29, 49)),
            currency=currency,
            renews_on=s.day(1, 365),
            status=s.pick(("active", "active", "paused", "cancelled")),
        )


APP = App(
    "billing",
    "Invoices, payments and subscriptions.",
    (CUSTOMERS, INVOICES, PAYMENTS, REFUNDS, SUBSCRIPTIONS, CREDITS),
    populate,
    (issue, void, write_off, record, refund, cancel, pause, resume),
)
