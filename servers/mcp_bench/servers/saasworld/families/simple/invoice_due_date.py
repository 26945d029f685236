"""An invoice is due on another day.

Level 2: the new day is counted from the old one; the customer has other invoices, and a sister company
one over the same amount.
"""

from datetime import date, timedelta

from mcp_bench.servers.saasworld.builder import Builder
from mcp_bench.servers.saasworld.draw import Company
from mcp_bench.servers.saasworld.family import family
from mcp_bench.servers.saasworld.state import Record
from mcp_bench.servers.saasworld.traps import sister_company


@family(levels=(1, 2))
def invoice_due_date(b: Builder) -> None:
    company, amount = b.company(), b.amount(200, 9000, 50)
    customer = _customer(b, company, b.pick(("USD", "EUR", "GBP")))
    invoice = _invoice(b, customer, amount, "open")
    b.background("billing", 20 if b.level == 1 else 150)

    if b.level == 1:
        due = b.day(22, 60)
        b.request(
            "Please move the due date of {number} to {due}.",
            "Invoice {number} is due on {due} now. Can you change it?",
            "New due date for {number}: {due}.",
            "{number} can be paid until {due}. Please set that as the due date.",
            number=invoice["number"],
            due=due,
        )
        b.look("billing_invoices_search", query=invoice["number"])
    else:
        days = b.pick((7, 10, 14, 21, 30))
        due = (date.fromisoformat(invoice["due_date"]) + timedelta(days=days)).isoformat()
        for other, status in ((amount, "paid"), (amount + 150, "open"), (amount + 900, "open")):
            _invoice(b, customer, other, status)
        sister = _customer(b, sister_company(b, company), customer["currency"])
        _invoice(b, sister, amount, "open")
        b.request(
            "{company} gets {days} more days for the open invoice of {amount} {currency}. Please move its "
            "due date by that much.",
            "Please move the due date of the open {amount} {currency} invoice of {company} by {days} days, "
            "to a later day of course.",
            "I promised {company} that their unpaid invoice of {amount} {currency} is due {days} days later "
            "than it says. Can you change the date?",
            company=company.name,
            days=days,
            amount=amount,
            currency=customer["currency"],
        )
        b.look("billing_customers_search", query=company.name)
        b.look("billing_invoices_list", customer_id=customer["id"])
    b.do("billing_invoices_update", id=invoice["id"], due_date=due)


def _customer(b: Builder, company: Company, currency: str) -> Record:
    return b.add(
        "billing.customers",
        name=company.name,
        email=f"accounts@{company.domain}",
        currency=currency,
        payment_terms=b.pick(("net_15", "net_30", "net_45")),
        tax_id=f"{b.integer(10, 99)}-{b.integer(1000000, 9999999)}",
        city=b.city(),
    )


def _invoice(b: Builder, customer: Record, amount: int, status: str) -> Record:
    return b.add(
        "billing.invoices",
        customer_id=customer["id"],
        amount=amount,
        currency=customer["currency"],
        status=status,
        amount_paid=amount if status == "paid" else 0,
        issue_date=b.day(-60, -10),
        due_date=b.day(-9, 20),
    )
