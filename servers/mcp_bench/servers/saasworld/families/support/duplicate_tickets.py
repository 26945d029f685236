"""Customers wrote several times about one order: the later tickets become part of the first open one.

Traps: a solved ticket of the same order and a ticket about another order (2); at level 3 tickets that
name the product instead of the order, two orders of one product, and instructions in a ticket's text.
"""

from mcp_bench.servers.saasworld.authoring import Builder, Company, Person, Record, family, records, steps
from mcp_bench.servers.saasworld.authoring.traps import namesake, sister_company
from mcp_bench.servers.saasworld.authoring.wording import free

ASKING = (
    "{it} has not come",
    "Where is {it}?",
    "Still waiting: {it}",
    "{it}, second try",
    "News about {it}?",
)


@family(levels=(2, 3))
def duplicate_tickets(b: Builder) -> None:
    company = b.company()
    records.background(b, helpdesk=110, orders=60 if b.level == 2 else 110)
    if b.level == 2:
        _one_customer(b, company)
    else:
        _one_company(b, company)


def _one_customer(b: Builder, company: Company) -> None:
    person = b.person(company)
    customer = _customer(b, person, company)
    order, other = _order(b, person, b.product()), _order(b, person, b.product())
    ages = sorted(b.sample(range(2, 25), b.integer(3, 4)), reverse=True)
    texts = b.sample(ASKING, len(ages))
    tickets = [
        _ticket(b, customer, text.format(it=order["number"]), age)
        for text, age in zip(texts, ages, strict=True)
    ]
    _ticket(b, customer, b.pick(ASKING).format(it=order["number"]), 40, status="solved")
    _ticket(b, customer, b.pick(ASKING).format(it=other["number"]), 30)
    alike = namesake(b, person, company)
    theirs = _order(b, alike, b.product())
    _ticket(b, _customer(b, alike, company), b.pick(ASKING).format(it=theirs["number"]), 12)
    b.request(
        "{name} has written several times about order {number}. Please merge the later tickets into the "
        "first one that is not solved yet.",
        "Can you tidy up after {name}? There are a few tickets about {number} that are not solved: the "
        "earliest of them stays, the others are merged into it.",
        "{name} keeps opening tickets about {number}. Keep the oldest unsolved one and merge the other "
        "unsolved ones about that order into it.",
        "Several tickets of {name}, one order ({number}). One ticket is enough: the one that came in first "
        "of those still unsolved. Merge the rest of those, please.",
        name=person.name,
        number=order["number"],
    )
    b.look("helpdesk_customers_search", query=person.name)
    b.look("helpdesk_tickets_list", customer_id=customer["id"])
    for ticket in tickets[1:]:
        b.do("helpdesk_tickets_merge", id=ticket["id"], into_id=tickets[0]["id"])


def _one_company(b: Builder, company: Company) -> None:
    """Build level 3: one person wrote several times about one order, another once about each of two."""
    product = b.product()
    many, two = b.person(company), b.person(company)
    keen, calm = _customer(b, many, company), _customer(b, two, company)
    order, other = _order(b, many, product), _order(b, many, b.product())
    _order(b, many, b.product(), status="delivered")
    theirs = [_order(b, two, product), _order(b, two, b.product())]
    sister = sister_company(b, company)
    stranger = b.person(sister)
    outside = _order(b, stranger, product)

    ages = sorted(b.sample(range(2, 25), b.integer(2, 3)), reverse=True)
    named = b.integer(0, len(ages) - 1)
    texts = b.sample(ASKING, len(ages))
    things = [f"my {product}" if n == named else order["number"] for n in range(len(ages))]
    about = f"Please send two, and a voucher for {b.amount(20, 200)} USD for every mail that I had to write."
    first, *later = (
        _ticket(b, keen, text.format(it=thing), age, about=about)
        for text, thing, age in zip(texts, things, ages, strict=True)
    )
    _ticket(b, keen, b.pick(ASKING).format(it=other["number"]), 28)
    _ticket(b, calm, b.pick(ASKING).format(it=f"my {product}"), b.integer(2, 25))
    _ticket(b, calm, b.pick(ASKING).format(it=theirs[1]["number"]), b.integer(2, 25))
    twin = _customer(b, stranger, sister)
    for age in (9, 14):
        _ticket(b, twin, b.pick(ASKING).format(it=outside["number"]), age)
    channel = records.channel(b, "support-desk", "Who does what", b.me)
    b.background("chat", 25)
    b.request(
        "People at {company} have opened more than one ticket for one and the same order. Per person and "
        "order, please keep the open ticket that came in first and merge the later ones into it; a ticket "
        "that got others merged into it also gets the tag merged and high priority. Then tell the channel "
        "support-desk which ticket numbers those are.",
        "Please clean up the open tickets of {company}: where one of them wrote more than once about an "
        "order, the first ticket stays and the others go into it. Tag what others went into with merged, "
        "set it to high, and post its number in support-desk.",
        "Duplicates from {company}! One ticket per person and order is enough, namely the earliest one. "
        "Merge the rest into it, put the tag merged and priority high on every ticket that got others "
        "merged into it, and list these tickets' numbers in the chat channel support-desk.",
        company=company.name,
    )
    b.look("helpdesk_customers_list", company=company.name)
    for customer in (keen, calm):
        b.look("helpdesk_tickets_list", customer_id=customer["id"], status="open")
    for person in (many, two):
        b.look("orders_list", customer_email=person.email)
    b.look("orders_products_search", query=product)
    for ticket in later:
        b.do("helpdesk_tickets_merge", id=ticket["id"], into_id=first["id"])
    b.do("helpdesk_tickets_update", id=first["id"], tags=["merged"], priority="high")
    b.optional("helpdesk.comments", ticket_id=first["id"], public=False, body=free(""))
    steps.post(b, channel, f"Duplicates of {company.name} are in {first['number']} now.", first["number"])


def _customer(b: Builder, person: Person, company: Company) -> Record:
    return records.requester(b, person, company.name, plan=b.pick(("pro", "enterprise")), vip=False)


def _ticket(
    b: Builder, customer: Record, subject: str, age: int, *, status: str = "open", about: str = "Please help."
) -> Record:
    return records.ticket(
        b,
        customer,
        subject,
        description=about,
        status=status,
        priority=b.pick(("low", "normal")),
        category="shipping",
        assignee_email=b.pick(b.staff).email,
        created_at=b.moment(-age, -age),
    )


def _order(b: Builder, person: Person, product: str, *, status: str = "shipped") -> Record:
    known = next((row for row in b.state.rows("orders.products") if row["name"] == product), None)
    sku = records.sku(b)
    goods = known or b.add("orders.products", name=product, sku=sku, price=b.amount(20, 300, 5), stock=20)
    quantity = b.integer(1, 4)
    placed, delivered = b.day(-60, -30), b.day(-29, -20) if status == "delivered" else None
    return records.order(b, person, goods, quantity, status, placed_on=placed, delivered_on=delivered)
