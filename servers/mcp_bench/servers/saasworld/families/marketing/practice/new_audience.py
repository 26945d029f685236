"""A list of subscribers is made, with the description of another list."""

from mcp_bench.servers.saasworld.authoring import Builder, family
from mcp_bench.servers.saasworld.authoring.wording import says


@family(levels=(1,))
def new_audience(b: Builder) -> None:
    lists = [f"{b.city()} partners", f"{b.product()} buyers", f"{b.project()} waiting list"]
    facts: dict[str, tuple[str, int]] = {}
    for name in lists:
        city, number = facts[name] = b.city(), b.integer(3, 99)
        told = (
            f"Met us at stand {number} in {city}.",
            f"Bought {number} pieces or more in {city}.",
            f"Live in {city}, visited us in week {number}.",
        )
        b.add("campaigns.audiences", name=name, description=b.pick(told))
    like, new = b.pick(lists), f"{b.project()} {b.city()} {b.pick(('guests', 'friends', 'readers'))}"
    b.background("campaigns", 18)
    b.request(
        'Please make a new audience "{new}" with the same description as "{like}".',
        'We need another audience, "{new}". Take over the description of "{like}".',
        'Can you create the audience "{new}"? What "{like}" has as its description fits here, too.',
        'New audience: "{new}". Its description is to be that of "{like}", word for word.',
        new=new,
        like=like,
    )
    (found,) = (row for row in b.look("campaigns_audiences_list")["items"] if row["name"] == like)
    b.do("campaigns_audiences_create", name=new, description=says(found["description"], *facts[like]))
