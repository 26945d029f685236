"""What is known about a subscriber changes: the name, the address, the city or the consent."""

from typing import Any

from mcp_bench.servers.saasworld.authoring import Builder, family, records, steps


@family(levels=(1,))
def subscriber_details(b: Builder) -> None:
    person, cities, last = b.person(b.company()), b.sample(b.words.cities, 2), b.person().last
    audience = b.add("campaigns.audiences", name=f"{b.city()} partners", description=f"Met in {b.city()}.")
    records.subscriber(b, audience, person, consent=True, country=cities[0])
    private, name = f"{person.first}{b.integer(2, 99)}@mailbox.example".lower(), f"{person.first} {last}"
    options: tuple[tuple[dict[str, Any], str], ...] = (
        ({"name": name}, f"has married and is called {name} now"),
        ({"email": private}, f"wants our mail at {private} from now on"),
        ({"country": cities[1]}, f"has moved to {cities[1]}"),
        ({"consent": False}, "takes the consent back, but stays on the list for now"),
        ({"name": name, "email": private}, f"is now {name}, {private}"),
    )
    new, news = b.pick(options)
    who = b.pick((person.name, person.email))
    b.background("campaigns", 18)
    b.request(
        "Our subscriber {who} {news}. Please change that.",
        "{who} {news}. Can you put it into the data of this subscriber?",
        "One of our subscribers, {who}, {news}. Update it, please.",
        "I got a call: {who}, who subscribes to our campaigns, {news}. Please correct the entry.",
        who=who,
        news=news,
    )
    if who == person.email:
        found = steps.find(b, "campaigns_subscribers_list", email=who)
    else:
        found = steps.find(b, "campaigns_subscribers_search", query=who)
    b.do("campaigns_subscribers_update", id=found["id"], **new)
