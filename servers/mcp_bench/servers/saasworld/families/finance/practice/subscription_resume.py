"""A paused subscription runs again; it is named by its plan, its currency or its seats."""

from typing import Any

from mcp_bench.servers.saasworld.apps.billing import PLANS
from mcp_bench.servers.saasworld.authoring import Builder, family, records, steps


@family(levels=(1,))
def subscription_resume(b: Builder) -> None:
    currency, plan, seats, day = (
        b.pick(("USD", "EUR", "GBP")),
        b.pick(PLANS),
        b.integer(2, 200),
        b.day(10, 300),
    )
    customer = records.customer(b, b.company(), currency, records.mailbox(b), city=b.city())
    terms = {"plan": plan, "seats": seats, "price_per_seat": b.pick((9, 15, 29, 49)), "renews_on": day}
    b.add("billing.subscriptions", customer_id=customer["id"], currency=currency, status="paused", **terms)
    options: tuple[tuple[str, dict[str, Any]], ...] = (
        (f"paused {plan} subscription", {"plan": plan}),
        (f"paused subscription in {currency}", {"currency": currency}),
        (f"paused subscription with {seats} seats", {"seats_min": seats, "seats_max": seats}),
    )
    one, filters = b.pick(options)
    b.background("billing", 20)
    b.request(
        "There is a {one}. Please let it run again.",
        "The customer with the {one} is back. Can you resume it?",
        "The pause is over for the {one}. Please change that.",
        "The {one} can go on, the customer has called. Resume it, please.",
        "We have a {one}: it should be active again.",
        one=one,
    )
    found = steps.find(b, "billing_subscriptions_list", status="paused", **filters)
    b.do("billing_subscriptions_resume", id=found["id"])
