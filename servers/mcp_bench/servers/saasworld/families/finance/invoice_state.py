"""An open invoice is voided or gets another due date, or a draft is issued.

Level 2: other invoices of the customer, paid or of another amount, and a sister company's of the same.
"""

from mcp_bench.servers.saasworld.authoring import Builder, Record, family, records, steps
from mcp_bench.servers.saasworld.authoring.traps import sister_company

WISHES = {
    "void": (
        "{which} was a mistake, please void it.",
        "Please void {which}.",
        "Can you void {which}?",
        "We have agreed to drop {which}. Void it, please.",
    ),
    "issue": (
        "{which} is ready, please issue it.",
        "Please issue {which}.",
        "Can you issue {which}? It is still a draft.",
        "All checked: {which} can be issued. Do it, please.",
    ),
    "due": (
        "Please move the due date of {which} to {day}.",
        "{which} gets a new due date: {day}.",
        "Can you set the due date of {which} to {day}?",
        "They get more time for {which}: make it due on {day}.",
    ),
}


@family(levels=(1, 2), held_out=True)
def invoice_state(b: Builder) -> None:
    company, wish, amount = b.company(), b.pick(tuple(WISHES)), b.amount(200, 9000, 20)
    status = "draft" if wish == "issue" else "open"
    customer = records.customer(b, company, b.pick(("USD", "EUR", "GBP")), records.mailbox(b))
    invoice = _invoice(b, customer, amount, status)
    day = b.date(b.integer(21, 60))
    b.background("billing", 20 if b.level == 1 else 150)
    which = f"invoice {invoice['number']}"
    if b.level == 2:
        _invoice(b, customer, amount, "paid")
        _invoice(b, customer, amount + b.amount(20, 200, 20), status)
        sister = records.customer(b, sister_company(b, company), customer["currency"], records.mailbox(b))
        _invoice(b, sister, amount, status)
        state = "draft" if status == "draft" else "open invoice"
        which = f"the {state} of {company.name} for {amount} {customer['currency']}"
    texts = (text.format(which=which, day=day) for text in WISHES[wish])
    b.request(*(text[0].upper() + text[1:] for text in texts))
    if b.level == 1:
        b.look("billing_invoices_list", number=invoice["number"])
    else:
        steps.read_invoices(b, customer, status=status)
    if wish == "due":
        b.do("billing_invoices_update", id=invoice["id"], due_date=day)
    else:
        b.do(f"billing_invoices_{wish}", id=invoice["id"])


def _invoice(b: Builder, customer: Record, amount: int, status: str) -> Record:
    return records.invoice(b, customer, amount, status, issue_date=b.day(-40, -5), due_date=b.day(3, 20))
