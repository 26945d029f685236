"""A payment is given back, or a part of it."""

from mcp_bench.servers.saasworld.authoring import Builder, family, records, steps

REASONS = {
    "duplicate": ("it was paid twice", "because the same bill was paid twice"),
    "requested_by_customer": ("the customer asked for it", "at the customer's request"),
    "product_issue": ("the product was faulty", "because of a faulty product"),
    "goodwill": ("it is goodwill", "out of goodwill"),
}


@family(levels=(1,))
def refund(b: Builder) -> None:
    currency, amount, method = (
        b.pick(("USD", "EUR", "GBP")),
        b.amount(100, 4000, 10),
        b.pick(("card", "check")),
    )
    customer = records.customer(b, b.company(), currency, records.mailbox(b))
    invoice = records.invoice(
        b, customer, amount, "paid", issue_date=b.day(-90, -50), due_date=b.day(-40, -10)
    )
    reference, day = f"TX{b.integer(100000, 999999)}", b.day(-30, -2)
    came = {"amount": amount, "currency": currency, "method": method, "received_on": day}
    b.add("billing.payments", invoice_id=invoice["id"], reference=reference, **came)
    reason = b.pick(tuple(REASONS))
    part = 0 if reason == "duplicate" else b.pick((0, b.amount(20, amount - 20, 5)))
    b.background("billing", 20)
    b.request(
        "Please pay back {what} payment {reference}, {why}.",
        "Refund {what} payment {reference}, please, {why}.",
        "The payment with the reference {reference}: give {what} it back, {why}.",
        "Can you refund {what} {reference}? Reason: {why}.",
        "{reference} - {what} that payment goes back to the customer, {why}.",
        what=f"{part} {currency} of" if part else "all of",
        reference=reference,
        why=b.pick(REASONS[reason]),
    )
    found = steps.find(b, "billing_payments_search", query=reference)
    b.do("billing_refunds_create", payment_id=found["id"], amount=part or found["amount"], reason=reason)
