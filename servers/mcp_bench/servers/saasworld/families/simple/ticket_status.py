"""A ticket gets another status.

Level 2: it is named by customer and product; the customer's other tickets, and tickets about the same
product by people of nearly the same name, stand next to it.
"""

from mcp_bench.servers.saasworld.authoring import Builder, Company, Person, Record, family, records
from mcp_bench.servers.saasworld.authoring.traps import namesake

SUBJECTS = (
    "{product} does not start",
    "Parts missing: {product}",
    "Question about the {product}",
    "{product} makes a noise",
    "Warranty for the {product}",
)


@family(levels=(1, 2))
def ticket_status(b: Builder) -> None:
    company = b.company()
    person, product = b.person(company), b.product()
    customer = _customer(b, person, company)
    old = b.pick(("open", "pending", "solved"))
    new = b.pick([state for state in ("open", "pending", "solved", "closed") if state != old])
    ticket = _ticket(b, customer, product, old)
    b.background("helpdesk", 16 if b.level == 1 else 160)

    if b.level == 1:
        b.request(
            "Please set ticket {number} of {name} to {new}.",
            "{number} from {name} is {new} now. Can you change the status?",
            "New status for ticket {number} ({name}): {new}.",
            "Could you mark {number} as {new}? It is the ticket of {name}.",
            "Ticket {number} by {name} should be {new}, please correct it.",
            number=ticket["number"],
            name=person.name,
            new=new,
        )
        b.look("helpdesk_tickets_search", query=ticket["number"])
    else:
        for _ in range(2):
            _ticket(b, customer, b.product(), old)
        for _ in range(3):
            _ticket(b, _customer(b, namesake(b, person, company), company), product, old)
        b.request(
            "Please set the ticket of {name} about the {product} to {new}.",
            "{name} wrote in about the {product}. That ticket is {new} now, can you change it?",
            "The {product} case of {name} should have the status {new}. Leave their other tickets alone.",
            "I spoke to {name}: the ticket on the {product} is to be {new}, only that one.",
            name=person.name,
            product=product,
            new=new,
        )
        b.look("helpdesk_customers_search", query=person.name)
        b.look("helpdesk_tickets_list", customer_id=customer["id"])
    b.do("helpdesk_tickets_update", id=ticket["id"], status=new)


def _customer(b: Builder, person: Person, company: Company) -> Record:
    return records.requester(b, person, company.name, plan=b.pick(("free", "pro", "enterprise")), vip=False)


def _ticket(b: Builder, customer: Record, product: str, status: str) -> Record:
    return records.ticket(
        b,
        customer,
        b.pick(SUBJECTS).format(product=product),
        description=f"It is about the {product}. Please answer by {b.day(1, 9)}.",
        status=status,
        priority=b.pick(("low", "normal", "high")),
        category=b.pick(("how_to", "shipping", "bug")),
        assignee_email=b.pick(b.staff).email,
    )
