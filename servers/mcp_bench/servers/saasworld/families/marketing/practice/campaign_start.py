"""A campaign starts now, whether it is a draft, was to start later or had paused."""

from mcp_bench.servers.saasworld.authoring import Builder, family, steps

SEASONS = ("spring", "summer", "autumn", "winter")
STATES = {
    "draft": "the draft is approved",
    "scheduled": "we cannot wait for its first day",
    "paused": "the pause is over",
}


@family(levels=(1,))
def campaign_start(b: Builder) -> None:
    name, status, budget = (
        f"{b.project()} {b.city()} {b.pick(SEASONS)}",
        b.pick(tuple(STATES)),
        b.amount(500, 9000, 100),
    )
    what = {"channel": b.pick(("email", "social", "search_ads")), "owner_email": b.pick(b.staff).email}
    when = {"starts_on": b.day(-30, -9) if status == "paused" else b.day(5, 30), "ends_on": b.day(40, 90)}
    b.add("campaigns.campaigns", name=name, status=status, budget=budget, spent=0, **what, **when)
    b.background("campaigns", 18)
    b.request(
        'Please start the campaign "{name}" now: {why}.',
        'The campaign "{name}" should run from this minute on, {why}.',
        'Can you launch "{name}" right away? {Why}.',
        '{Why}: "{name}" has to go live today. Start it now, please.',
        "Start {name}, our campaign, at once. {Why}.",
        name=name,
        why=STATES[status],
        Why=STATES[status][0].upper() + STATES[status][1:],
    )
    found = steps.find(b, "campaigns_search", query=name)
    b.do("campaigns_launch", id=found["id"])
