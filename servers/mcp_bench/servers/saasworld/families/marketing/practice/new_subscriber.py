"""Somebody is put on one of the lists of subscribers."""

from typing import Any

from mcp_bench.servers.saasworld.authoring import Builder, family
from mcp_bench.servers.saasworld.authoring.wording import also


@family(levels=(1,))
def new_subscriber(b: Builder) -> None:
    lists = [f"{b.city()} partners", f"{b.product()} buyers", f"{b.project()} waiting list"]
    for name in lists:
        b.add("campaigns.audiences", name=name, description=f"People we met in {b.city()}.")
    person, wanted, city, tag = (
        b.person(b.company()),
        b.pick(lists),
        b.city(),
        b.pick(("vip", "press", "trial")),
    )
    options: tuple[tuple[dict[str, Any], str], ...] = (
        ({"consent": True}, "and yes, there is a consent"),
        ({"country": city}, f"with {city} as the country or city"),
        ({"tags": [tag]}, f"with the tag {tag}"),
        ({"consent": True, "country": city}, f"with consent, country or city {city}"),
    )
    more, rest = b.pick(options)
    b.background("campaigns", 18)
    b.request(
        'Please put {name} ({email}) on the list "{wanted}", {rest}.',
        '{name} wants to be on the list "{wanted}": {email}, {rest}.',
        'New subscriber for "{wanted}": {name}, {email}, {rest}.',
        'Can you add {email} to our list "{wanted}"? The name is {name}; {rest}.',
        'Met {name} today. Subscribe {email} to the list "{wanted}", please, {rest}.',
        name=person.name,
        email=person.email,
        wanted=wanted,
        rest=rest,
    )
    (found,) = (row for row in b.look("campaigns_audiences_list")["items"] if row["name"] == wanted)
    who = {"email": person.email, "name": person.name, "audience_id": found["id"]}
    agreed = also() if "consent" in more else also("consent")
    b.do("campaigns_subscribers_create", agreed, **who, **more)
