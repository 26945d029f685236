"""An open invoice that nobody will pay is written off."""

from mcp_bench.servers.saasworld.authoring import Builder, family, records, steps
from mcp_bench.servers.saasworld.authoring.wording import free

REASONS = (
    "the customer is bankrupt",
    "nobody answers our reminders",
    "a lawyer would cost more than we get",
    "the company does not exist any more",
)


@family(levels=(1,))
def write_off(b: Builder) -> None:
    company, amount, why = b.company(), b.amount(200, 6000, 20), b.pick(REASONS)
    sentence = f"{why[0].upper()}{why[1:]}"
    customer = records.customer(b, company, b.pick(("USD", "EUR", "GBP")), records.mailbox(b))
    due, paid = b.day(-180, -70), b.pick((0, 0, amount // 4))
    invoice = records.invoice(b, customer, amount, paid=paid, issue_date=b.day(-240, -190), due_date=due)
    by_number = b.chance(0.6)
    of = f"invoice {invoice['number']}" if by_number else f"the open invoice that was due on {due}"
    b.background("billing", 20)
    b.request(
        "Please write off {of}: {why}.",
        "We will never see the money of {of}, {why}. Write it off, please.",
        "Can you write off {of}? The reason: {why}.",
        "{Why}, so {of} can be written off. Please do that.",
        "I give up on {of} because {why}. Write it off, thanks.",
        of=of,
        why=why,
        Why=sentence,
    )
    if by_number:
        found = steps.find(b, "billing_invoices_list", number=invoice["number"])
    else:
        found = steps.find(b, "billing_invoices_list", due_date_min=due, due_date_max=due)
    b.do("billing_invoices_write_off", id=found["id"], reason=free(f"{sentence}."))
