"""A customer of the helpdesk pays for another plan, has changed company, or comes first from now on."""

from mcp_bench.servers.saasworld.authoring import Builder, family, records, steps

PLANS = ("free", "pro", "enterprise")


@family(levels=(1,))
def customer_details(b: Builder) -> None:
    company, other = b.company(), b.company()
    person = b.person(company)
    old, plan = b.sample(PLANS, 2)
    vip = b.chance(0.5)
    customer = records.requester(b, person, company.name, plan=old, vip=vip)
    b.background("helpdesk", 18)
    field, value, said = b.pick(
        (
            ("plan", plan, f"is on the {plan} plan now"),
            ("company", other.name, f"works for {other.name} now"),
            ("vip", not vip, "is no VIP any more" if vip else "is a VIP from now on"),
        )
    )
    tool, by, whom = b.pick(
        (
            ("helpdesk_customers_search", {"query": person.name}, person.name),
            ("helpdesk_customers_list", {"email": person.email}, person.email),
        )
    )
    b.request(
        "{who} {said}. Please change the customer in the helpdesk.",
        "Please update a customer in the helpdesk: {who} {said}.",
        "Can you put in that {who} {said}? It is a helpdesk customer.",
        "For support: our customer {who} {said}. Change that, please.",
        who=whom,
        said=said,
    )
    steps.find(b, tool, **by)
    b.do("helpdesk_customers_update", id=customer["id"], **{field: value})
