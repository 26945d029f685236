"""A customer wrote twice about the same product, and one ticket becomes part of the other."""

from mcp_bench.servers.saasworld.authoring import Builder, family, records

PAIRS = (
    ("{} has not arrived", "Where is my {}?"),
    ("{} is broken", "Still no answer about my {}"),
    ("Charged twice for {}", "Two bills for one {}"),
)


@family(levels=(1,))
def merged_ticket(b: Builder) -> None:
    company, product = b.company(), b.product()
    customer = records.requester(b, b.person(company), company.name, plan="pro", vip=b.chance(0.2))
    first, second = b.pick(PAIRS)
    common = {"assignee_email": b.pick(b.staff).email, "category": b.pick(("shipping", "billing"))}
    opened = {"created_at": b.moment(-30, -12), "status": "open", **common}
    older = records.ticket(b, customer, first.format(product), **opened)
    opened = {"created_at": b.moment(-10, -1), "status": b.pick(("open", "pending")), **common}
    newer = records.ticket(b, customer, second.format(product), **opened)
    b.background("helpdesk", 18)
    gone, stays = b.sample((older, newer), 2)
    words = {older["id"]: "older", newer["id"]: "newer"}
    names = b.pick(
        (
            (f"ticket {gone['number']}", f"ticket {stays['number']}"),
            (f"the {words[gone['id']]} one", f"the {words[stays['id']]} one"),
        )
    )
    b.request(
        "There are two tickets about {product}. Please merge {gone} into {stays}.",
        "Somebody wrote twice about {product}: merge {gone} into {stays}, please.",
        "Can you merge two tickets? Both are about {product}; {stays} stays, {gone} becomes part of it.",
        "Two tickets, one problem, {product}: close {gone} as part of {stays}, please.",
        product=product,
        gone=names[0],
        stays=names[1],
    )
    b.look("helpdesk_tickets_search", query=product)
    b.do("helpdesk_tickets_merge", id=gone["id"], into_id=stays["id"])
