"""A subscription gets other seats, another plan or a discount; it is named by its next renewal."""

from typing import Any

from mcp_bench.servers.saasworld.apps.billing import PLANS
from mcp_bench.servers.saasworld.authoring import Builder, family, records, steps


@family(levels=(1,))
def subscription_change(b: Builder) -> None:
    currency, day, seats = b.pick(("USD", "EUR", "GBP")), b.day(10, 300), b.integer(5, 150)
    (plan, other), more, percent = b.sample(PLANS, 2), seats + b.integer(2, 60), b.pick((5, 10, 15, 20, 25))
    customer = records.customer(b, b.company(), currency, records.mailbox(b), city=b.city())
    terms = {"plan": plan, "seats": seats, "price_per_seat": b.pick((9, 15, 29, 49)), "currency": currency}
    b.add("billing.subscriptions", customer_id=customer["id"], renews_on=day, **terms)
    options: tuple[tuple[dict[str, Any], str], ...] = (
        ({"seats": more}, f"has {more} seats now"),
        ({"plan": other}, f"moves to the {other} plan"),
        ({"discount_percent": percent}, f"gets a discount of {percent} percent"),
        ({"plan": other, "seats": more}, f"moves to the {other} plan with {more} seats"),
    )
    new, wish = b.pick(options)
    b.background("billing", 20)
    b.request(
        "The subscription that renews on {day} {wish}. Please change it.",
        "Can you change a subscription? The one with the renewal on {day} {wish}.",
        "Renewal {day}: this subscription {wish}, please.",
        "One of the subscriptions {wish}. It is the one that renews on {day}.",
        "I agreed on something with a customer: their subscription (next renewal {day}) {wish}. Put it in.",
        day=day,
        wish=wish,
    )
    found = steps.find(b, "billing_subscriptions_list", renews_on_min=day, renews_on_max=day)
    b.do("billing_subscriptions_update", id=found["id"], **new)
