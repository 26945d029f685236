"""A customer's subscription is cancelled, at once or at its next renewal."""

from mcp_bench.servers.saasworld.apps.billing import PLANS
from mcp_bench.servers.saasworld.authoring import Builder, family, records, steps
from mcp_bench.servers.saasworld.authoring.wording import free

REASONS = (
    "they are too small for it",
    "they use other software now",
    "it costs them too much",
    "they close down",
)


@family(levels=(1,))
def subscription_end(b: Builder) -> None:
    currency, why = b.pick(("USD", "EUR", "GBP")), b.pick(REASONS)
    customer = records.customer(b, b.company(), currency, records.mailbox(b), city=b.city())
    terms = {"plan": b.pick(PLANS), "seats": b.integer(2, 200), "price_per_seat": b.pick((9, 15, 29, 49))}
    day, status = b.day(10, 300), b.pick(("active", "active", "paused"))
    of = {"customer_id": customer["id"], "currency": currency, "renews_on": day, "status": status}
    b.add("billing.subscriptions", **of, **terms)
    later = b.chance(0.5)
    b.background("billing", 20)
    b.request(
        "Please cancel the subscription of customer {who} {when}: {why}.",
        "Customer {who} wants to leave, {why}. Cancel the subscription {when}, please.",
        "Can you end the subscription of {who}? It should stop {when}; {why}.",
        "{who} (a customer in billing) cancels {when}. They say that {why}.",
        "The subscription of the customer {who} ends {when}, because {why}. Cancel it please.",
        who=customer["id"],
        when=b.pick(("at the next renewal", "on the day of the next renewal"))
        if later
        else b.pick(("at once", "immediately")),
        why=why,
    )
    found = steps.find(b, "billing_subscriptions_list", customer_id=customer["id"])
    reason = free(f"{why[0].upper()}{why[1:]}.")
    b.do("billing_subscriptions_cancel", id=found["id"], at_period_end=later, reason=reason)
