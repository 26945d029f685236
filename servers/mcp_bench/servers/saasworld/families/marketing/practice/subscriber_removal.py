"""A subscriber's data are deleted for good; the subscriber is named by name, address or tag."""

from mcp_bench.servers.saasworld.authoring import Builder, family, records, steps


@family(levels=(1,))
def subscriber_removal(b: Builder) -> None:
    person, other, city = b.person(b.company()), b.person(b.company()), b.city()
    audience = b.add("campaigns.audiences", name=f"{city} partners", description=f"Met in {b.city()}.")
    tag = f"{b.pick(('raffle', 'fair', 'webinar'))}-{b.integer(100, 999)}"
    records.subscriber(b, audience, person, consent=True, country=b.city(), tags=[tag])
    records.subscriber(b, audience, other, consent=True, country=b.city())
    who, tool, query = b.pick(
        (
            (person.name, "search", {"query": person.name}),
            (person.email, "list", {"email": person.email}),
            (f"with the tag {tag}", "list", {"tags": tag}),
        )
    )
    b.background("campaigns", 18)
    b.request(
        "Please delete the subscriber {who} for good.",
        "The subscriber {who} wants all data deleted. Please do that; to unsubscribe is not enough.",
        "Can you delete our subscriber {who}? Not just unsubscribe, the whole entry has to go.",
        "We must not keep the data of the subscriber {who}. Delete the entry, please.",
        "Delete the subscriber {who}, thanks. It was a test address.",
        who=who,
    )
    found = steps.find(b, f"campaigns_subscribers_{tool}", **query)
    b.do("campaigns_subscribers_delete", id=found["id"])
