"""An invoice is due on another day.

Level 2: the new day is counted from the old one; the customer has other invoices, and a sister company
one over the same amount.
"""

from mcp_bench.servers.saasworld.authoring import Builder, Company, Record, family, records, steps, times
from mcp_bench.servers.saasworld.authoring.traps import sister_company


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
        due = times.day_after(invoice["due_date"], days)
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
        steps.read_invoices(b, customer)
    b.do("billing_invoices_update", id=invoice["id"], due_date=due)


def _customer(b: Builder, company: Company, currency: str) -> Record:
    return records.customer(
        b,
        company,
        currency,
        "accounts",
        payment_terms=b.pick(("net_15", "net_30", "net_45")),
        tax_id=f"{b.integer(10, 99)}-{b.integer(1000000, 9999999)}",
        city=b.city(),
    )


def _invoice(b: Builder, customer: Record, amount: int, status: str) -> Record:
    return records.invoice(b, customer, amount, status, issue_date=b.day(-60, -10), due_date=b.day(-9, 20))
