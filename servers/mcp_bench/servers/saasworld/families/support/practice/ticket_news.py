"""Somebody asks about a ticket, and hears by mail how it stands, who has it or how urgent it is."""

from mcp_bench.servers.saasworld.authoring import Builder, family, records, steps

STATES = {
    "open": ("open",),
    "pending": ("pending", "waiting", "on hold"),
    "solved": ("solved", "resolved"),
    "closed": ("closed",),
}


@family(levels=(1,))
def ticket_news(b: Builder) -> None:
    company, product = b.company(), b.product()
    who, handler = b.sample(b.staff, 2)
    customer = records.requester(b, b.person(company), company.name, plan="pro", vip=b.chance(0.2))
    subject = b.pick(("Refund for {}", "{} is too loud", "Warranty of {}")).format(product)
    status, priority = b.pick(tuple(STATES)), b.pick(("low", "normal", "high", "urgent"))
    about = {"status": status, "priority": priority, "category": "how_to", "assignee_email": handler.email}
    ticket = records.ticket(b, customer, subject, **about)
    b.background("helpdesk", 18)
    b.background("mail", 6)
    said, text, mention = b.pick(
        (
            ("what its status is", f"The status is {status}.", STATES[status]),
            ("who works on it", f"It is with {handler.email}.", (handler.last,)),
            ("which priority it has", f"The priority is {priority}.", (priority,)),
        )
    )
    query, it = b.pick(
        ((ticket["number"], f"ticket {ticket['number']}"), (subject, f'the ticket "{subject}"'))
    )
    b.request(
        "{who} asks about {it}, namely {said}. Please look it up and answer by mail.",
        "Please look up {it} and tell {who} in a mail {said}.",
        "Can you write a mail to {who}? It is about {it}, {said}.",
        "I owe {who} an answer about {it}, namely {said}. Look it up and mail it, please.",
        who=who.email,
        it=it,
        said=said,
    )
    steps.find(b, "helpdesk_tickets_search", query=query)
    steps.send_mail(b, who.email, f"Your question: {ticket['number']}", text, mention)
