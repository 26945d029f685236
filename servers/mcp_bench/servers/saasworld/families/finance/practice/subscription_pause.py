"""A subscription is paused; it is named by its plan and seats, or by its next renewal."""

from typing import Any

from mcp_bench.servers.saasworld.apps.billing import PLANS
from mcp_bench.servers.saasworld.authoring import Builder, family, records, steps


@family(levels=(1,))
def subscription_pause(b: Builder) -> None:
    currency, plan, seats, day = (
        b.pick(("USD", "EUR", "GBP")),
        b.pick(PLANS),
        b.integer(2, 200),
        b.day(10, 300),
    )
    customer = records.customer(b, b.company(), currency, records.mailbox(b), city=b.city())
    terms = {"plan": plan, "seats": seats, "price_per_seat": b.pick((9, 15, 29, 49)), "renews_on": day}
    b.add("billing.subscriptions", customer_id=customer["id"], currency=currency, **terms)
    options: tuple[tuple[str, dict[str, Any]], ...] = (
        (
            f"{plan} subscription with {seats} seats",
            {"plan": plan, "seats_min": seats, "seats_max": seats},
        ),
        (f"subscription that renews on {day}", {"renews_on_min": day, "renews_on_max": day}),
    )
    one, filters = b.pick(options)
    why = b.pick(
        ("the office is being rebuilt", "they have no work until autumn", "they wait for a new budget")
    )
    b.background("billing", 20)
    b.request(
        "Please pause the {one}.",
        "The {one} should be paused: {why}.",
        "Can you put the {one} on hold? {Why}.",
        "{Why}, so please pause their subscription. It is the {one}.",
        "Pause the {one} for now, please, but do not cancel it.",
        one=one,
        why=why,
        Why=f"{why[0].upper()}{why[1:]}",
    )
    found = steps.find(b, "billing_subscriptions_list", **filters)
    b.do("billing_subscriptions_pause", id=found["id"])
