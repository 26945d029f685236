"""A ticket cannot wait and is handed up."""

from mcp_bench.servers.saasworld.authoring import Builder, family, records, steps
from mcp_bench.servers.saasworld.authoring.wording import free

REASONS = (
    "the customer threatens to leave",
    "their whole shop stands still",
    "a lawyer has written to us",
    "they have waited for two weeks",
)


@family(levels=(1,))
def escalated_ticket(b: Builder) -> None:
    company, handler, product = b.company(), b.person(b.org), b.product()
    customer = records.requester(b, b.person(company), company.name, plan="pro", vip=b.chance(0.2))
    subject = b.pick(("{} does not start", "Spare part for {}", "{} arrived broken")).format(product)
    about = {"status": b.pick(("open", "pending")), "category": b.pick(("bug", "shipping"))}
    about |= {"priority": b.pick(("low", "normal", "high")), "assignee_email": handler.email}
    ticket = records.ticket(b, customer, subject, **about)
    b.background("helpdesk", 18)
    tool, by, it = b.pick(
        (
            ("helpdesk_tickets_search", {"query": ticket["number"]}, f"ticket {ticket['number']}"),
            ("helpdesk_tickets_search", {"query": subject}, f'the ticket "{subject}"'),
            ("helpdesk_tickets_list", {"assignee_email": handler.email}, f"the ticket of {handler.email}"),
        )
    )
    why = b.pick(REASONS)
    b.request(
        "Please escalate {it}: {why}.",
        "Can you escalate {it}? As it is, {why}.",
        "This cannot wait, {why}. Escalate {it}, please.",
        "Because {why}, {it} has to be handed up. Please escalate it.",
        "Time to escalate {it}, would you?",
        it=it,
        why=why,
    )
    steps.find(b, tool, **by)
    b.do("helpdesk_tickets_escalate", id=ticket["id"], reason=free(f"{why[0].upper()}{why[1:]}."))
