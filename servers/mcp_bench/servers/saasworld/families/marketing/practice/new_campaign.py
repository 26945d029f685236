"""A campaign is set up for one of the lists of subscribers."""

from typing import Any

from mcp_bench.servers.saasworld.authoring import Builder, family

SEASONS = ("spring", "summer", "autumn", "winter")
CHANNELS = (
    ("email", "email"),
    ("social", "social media"),
    ("search_ads", "search ads"),
    ("display_ads", "display ads"),
)


@family(levels=(1,))
def new_campaign(b: Builder) -> None:
    currency, budget, day = b.pick(("USD", "EUR", "GBP")), b.amount(500, 20000, 100), b.day(5, 60)
    owner = b.pick(b.staff).email
    lists = [f"{b.city()} partners", f"{b.product()} buyers", f"{b.project()} waiting list"]
    for name in lists:
        b.add("campaigns.audiences", name=name, description=f"People we met in {b.city()}.")
    wanted, name = b.pick(lists), f"{b.project()} {b.city()} {b.pick(SEASONS)}"
    channel, spoken = b.pick(CHANNELS)
    options: tuple[tuple[dict[str, Any], str], ...] = (
        ({"budget": budget, "currency": currency}, f"budget {budget} {currency}"),
        ({"starts_on": day}, f"first day {day}"),
        ({"owner_email": owner}, f"{owner} is in charge"),
    )
    more, rest = b.pick(options)
    b.background("campaigns", 18)
    b.request(
        'Please set up a campaign "{name}" by {channel} for the audience "{wanted}", {rest}.',
        'New campaign, please: "{name}", {channel}, audience "{wanted}"; {rest}.',
        'We want to reach the audience "{wanted}" with a new campaign. Name: "{name}", by {channel}, {rest}.',
        'Can you create "{name}"? It is a campaign by {channel} to the audience "{wanted}"; {rest}.',
        name=name,
        channel=spoken,
        wanted=wanted,
        rest=rest,
    )
    (found,) = (row for row in b.look("campaigns_audiences_list")["items"] if row["name"] == wanted)
    b.do("campaigns_create", name=name, channel=channel, audience_id=found["id"], **more)
