"""A customer gets news by mail; the address is in the CRM."""

from mcp_bench.servers.saasworld.authoring import Builder, family, records, steps
from mcp_bench.servers.saasworld.authoring.wording import Mention, spoken


@family(levels=(1,))
def mail_to_contact(b: Builder) -> None:
    company, day, number = b.company(), b.day(2, 40), b.integer(12, 90)
    person, product = b.person(company), b.product()
    account = records.account(b, company, city=b.city(), domain=company.domain)
    short = person.first if b.chance(0.5) else f"{person.first[0]}{person.last}"
    records.contact(b, person, account, email=f"{short}@{company.domain}".lower(), phone=b.phone())
    options: tuple[tuple[str, str, list[Mention]], ...] = (
        (f"the delivery comes on {day}", f"The delivery comes on {day}.", [spoken(day)]),
        (f"the {product} is back in stock", f"The {product} is back in stock.", [product]),
        (f"they get {number} percent off", f"You get {number} percent off.", [number]),
        (f"the {product} ships on {day}", f"The {product} ships on {day}.", [product, spoken(day)]),
    )
    news, text, facts = b.pick(options)
    b.background("crm", 16)
    b.background("mail", 16)
    b.request(
        "Please write a mail to {name}: {news}. The address is in the CRM.",
        "Can you mail {name} of {company} that {news}?",
        "{name} ought to know that {news}. Send a mail, please; we have the address in the CRM.",
        "Mail to {name} ({company}), please: {news}.",
        "Tell {name} by mail that {news}. You find the address in our contacts.",
        name=person.name,
        company=company.name,
        news=news,
    )
    found = steps.find(b, "crm_contacts_search", query=person.name)
    steps.send_mail(b, found["email"], "News", f"Hello {person.first}! {text} Best, {b.me.first}", *facts)
