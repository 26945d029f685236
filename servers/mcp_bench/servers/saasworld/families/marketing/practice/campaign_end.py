"""A campaign is ended for good, or only paused; it is named by who is in charge or by its last day."""

from mcp_bench.servers.saasworld.authoring import Builder, family, steps

SEASONS = ("spring", "summer", "autumn", "winter")


@family(levels=(1,))
def campaign_end(b: Builder) -> None:
    owner, last = b.person(b.org), b.day(91, 140)
    budget, name = b.amount(500, 9000, 100), f"{b.project()} {b.city()} {b.pick(SEASONS)}"
    what = {"channel": b.pick(("email", "social", "search_ads")), "owner_email": owner.email}
    when = {"starts_on": b.day(-30, -9), "ends_on": last}
    b.add("campaigns.campaigns", name=name, status="active", budget=budget, spent=budget // 2, **what, **when)
    other = f"{b.project()} {b.city()} {b.pick(SEASONS)}"
    b.add("campaigns.campaigns", name=other, status="draft", budget=budget, **what)
    tool, wish = b.pick(
        (("complete", "ended for good"), ("complete", "completed"), ("pause", "paused for now"))
    )
    by_owner = b.chance(0.5)
    one = f"the active campaign of {owner.email}" if by_owner else f"the campaign that ends on {last}"
    b.background("campaigns", 18)
    b.request(
        "{One} should be {wish}, please.",
        "Can you make sure that {one} is {wish}?",
        "We have learned enough from {one}. It can be {wish}.",
        "There is no money left: {one} has to be {wish}.",
        "One thing for the campaigns: {one} is to be {wish}. Please do it now.",
        one=one,
        One=f"{one[0].upper()}{one[1:]}",
        wish=wish,
    )
    if by_owner:
        found = steps.find(b, "campaigns_list", owner_email=owner.email, status="active")
    else:
        found = steps.find(b, "campaigns_list", ends_on_min=last, ends_on_max=last)
    b.do(f"campaigns_{tool}", id=found["id"])
