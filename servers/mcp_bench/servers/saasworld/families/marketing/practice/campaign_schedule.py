"""A draft of a campaign is scheduled: it starts on its first day."""

from mcp_bench.servers.saasworld.authoring import Builder, family, steps

SEASONS = ("spring", "summer", "autumn", "winter")


@family(levels=(1,))
def campaign_schedule(b: Builder) -> None:
    owner, name = b.person(b.org), f"{b.project()} {b.city()} {b.pick(SEASONS)}"
    what = {"channel": b.pick(("email", "social", "event")), "currency": "EUR", "owner_email": owner.email}
    when = {"starts_on": b.day(3, 30), "ends_on": b.day(40, 90)}
    b.add("campaigns.campaigns", name=name, budget=b.amount(500, 9000, 100), **what, **when)
    past = {"starts_on": b.day(-90, -60), "ends_on": b.day(-50, -10), "status": "completed"}
    other = f"{b.project()} {b.city()} {b.pick(SEASONS)}"
    b.add("campaigns.campaigns", name=other, budget=b.amount(500, 9000, 100), **what, **past)
    by_name = b.chance(0.5)
    one = f'the campaign "{name}"' if by_name else f"the draft campaign of {owner.email}"
    b.background("campaigns", 16)
    b.request(
        "Please schedule {one}, so that it starts on its first day.",
        "{One} is ready. Schedule it, please.",
        "Can you see to it that {one} starts by itself on its first day? The draft is fine.",
        "No changes to {one}, it can be scheduled.",
        "Everybody has agreed to {one}: schedule it for its first day, but do not start it yet.",
        one=one,
        One=f"{one[0].upper()}{one[1:]}",
    )
    if by_name:
        found = steps.find(b, "campaigns_search", query=name)
    else:
        found = steps.find(b, "campaigns_list", owner_email=owner.email, status="draft")
    b.do("campaigns_schedule", id=found["id"])
