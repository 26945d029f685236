"""A ticket gets an answer that the customer sees, or a note that only colleagues see."""

from mcp_bench.servers.saasworld.authoring import Builder, family, records, steps
from mcp_bench.servers.saasworld.authoring.wording import says, spoken

KINDS = {True: "an answer for the customer", False: "an internal note"}


@family(levels=(1,))
def ticket_comment(b: Builder) -> None:
    company, product, day, number = b.company(), b.product(), b.day(2, 25), b.integer(11, 89)
    customer = records.requester(b, b.person(company), company.name, plan="pro", vip=b.chance(0.2))
    subject = b.pick(("Return of {}", "{} makes noise", "Manual of {}", "{} in blue?")).format(product)
    about = {"status": b.pick(("open", "pending")), "category": b.pick(("how_to", "shipping"))}
    ticket = records.ticket(b, customer, subject, assignee_email=b.pick(b.staff).email, **about)
    b.background("helpdesk", 18)
    text, mention = b.pick(
        (
            (f"The technician comes on {day}.", spoken(day)),
            (f"The new parcel leaves on {day}.", spoken(day)),
            (f"We can offer {number} USD for it.", (str(number),)),
            (f"The part has the number {number}.", (str(number),)),
        )
    )
    public = b.chance(0.5)
    query, it = b.pick(((ticket["number"], ticket["number"]), (subject, f'the ticket "{subject}"')))
    b.request(
        'Please put {kind} on {it}: "{text}"',
        'Can you add {kind} to {it}? It says: "{text}"',
        '"{text}" - please add that to {it} as {kind}.',
        'Please write {kind} on {it}, with this text: "{text}"',
        'I need {kind} on {it}: "{text}"',
        kind=KINDS[public],
        it=it,
        text=text,
    )
    steps.find(b, "helpdesk_tickets_search", query=query)
    b.do("helpdesk_comments_create", ticket_id=ticket["id"], public=public, body=says(text, mention))
