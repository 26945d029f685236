"""A customer gets a credit note, about one of the invoices or in general."""

from mcp_bench.servers.saasworld.authoring import Builder, family, records, steps
from mcp_bench.servers.saasworld.authoring.wording import says

REASONS = (
    ("the delivery was late", "late"),
    ("two boxes were missing", "missing"),
    ("the price on the offer was lower", "price"),
    ("the training was cancelled", "training"),
    ("they sent pallets back", "pallets"),
)


@family(levels=(1,))
def credit_note(b: Builder) -> None:
    company, currency, credit = b.company(), b.pick(("USD", "EUR", "GBP")), b.amount(20, 400, 5)
    customer = records.customer(b, company, currency, records.mailbox(b), city=b.city())
    day, due = b.day(-90, -40), b.day(-30, 20)
    invoice = records.invoice(b, customer, b.amount(500, 9000, 50), issue_date=day, due_date=due)
    (why, word), about = b.pick(REASONS), b.chance(0.5)
    sentence = f"{why[0].upper()}{why[1:]}"
    b.background("billing", 20)
    b.request(
        "Please give {whom} a credit of {credit} {currency}{about}. Note: {why}.",
        "Credit note over {credit} {currency} to {whom}{about}, with the note that {why}.",
        "{Why}, so {whom} gets a credit of {credit} {currency}{about}. Enter it with this reason, please.",
        "Can you credit {credit} {currency} to {whom}{about}? Write down as the reason that {why}.",
        whom=f"the customer of {invoice['number']}" if about else company.name,
        about=" for this invoice" if about else "",
        credit=credit,
        currency=currency,
        why=why,
        Why=sentence,
    )
    if about:
        found = steps.find(b, "billing_invoices_list", number=invoice["number"])
        to = {"customer_id": found["customer_id"], "invoice_id": found["id"]}
    else:
        found = steps.find(b, "billing_customers_search", query=company.name)
        to = {"customer_id": found["id"]}
    note = says(f"{sentence}.", word)
    b.do("billing_credits_create", **to, amount=credit, currency=currency, note=note)
