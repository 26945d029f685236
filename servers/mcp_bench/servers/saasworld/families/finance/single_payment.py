"""A customer's payment is recorded on the invoice it pays.

Level 2: other invoices of the customer, paid, drafted or of another amount, and a sister company's of
just the same amount.
"""

from mcp_bench.servers.saasworld.authoring import Builder, Company, Record, family, records, steps
from mcp_bench.servers.saasworld.authoring.traps import sister_company
from mcp_bench.servers.saasworld.authoring.wording import also


@family(levels=(1, 2))
def single_payment(b: Builder) -> None:
    company, currency, amount = b.company(), b.pick(("USD", "EUR", "GBP")), b.amount(200, 9000, 20)
    customer = _customer(b, company, currency)
    invoice = _invoice(b, customer, amount)
    method, spoken = b.pick((("bank_transfer", "bank transfer"), ("card", "card"), ("check", "check")))
    b.background("billing", 20 if b.level == 1 else 150)
    values = {"amount": amount, "currency": currency, "how": spoken, "company": company.name}
    if b.level == 1:
        b.request(
            "{number} was paid by {how}: {amount} {currency}. Please record the payment.",
            "Please record {amount} {currency} by {how} for invoice {number}.",
            "Invoice {number}: {amount} {currency} came in by {how} today. Book it, please.",
            "We got {amount} {currency} for {number}, by {how}. Record it please.",
            number=invoice["number"],
            **values,
        )
        b.look("billing_invoices_list", number=invoice["number"])
        also_free = also("received_on", "reference")
        b.do("billing_payments_record", also_free, invoice_id=invoice["id"], amount=amount, method=method)
        return
    _invoice(b, customer, amount + b.amount(40, 400, 20))
    _invoice(b, customer, amount, "paid")
    _invoice(b, customer, amount, "draft")
    sister = _customer(b, sister_company(b, company), currency)
    _invoice(b, sister, amount)
    day, reference = b.day(-6, -1), f"TX{b.integer(100000, 999999)}"
    b.request(
        "{company} paid one of its invoices: {amount} {currency} by {how} on {day}, reference {ref}. Please "
        "record it with all of that on the open invoice of this amount.",
        "Payment from {company}, {amount} {currency}, {how}, arrived {day}, reference {ref}. Can you find "
        "the open invoice it pays in full and record it, date and reference included?",
        "On {day} {amount} {currency} came from {company} by {how} (reference {ref}). Record the payment, "
        "with day and reference, on the open invoice over just that amount.",
        day=day,
        ref=reference,
        **values,
    )
    steps.read_invoices(b, customer, status="open")
    came = {"method": method, "received_on": day, "reference": reference}
    b.do("billing_payments_record", invoice_id=invoice["id"], amount=amount, **came)


def _customer(b: Builder, company: Company, currency: str) -> Record:
    return records.customer(b, company, currency, records.mailbox(b), payment_terms="net_30")


def _invoice(b: Builder, customer: Record, amount: int, status: str = "open") -> Record:
    return records.invoice(b, customer, amount, status, issue_date=b.day(-60, -20), due_date=b.day(-10, 20))
