"""A contact has a new address, number or title; level 2 has another person of the same name."""

from mcp_bench.servers.saasworld.authoring import Builder, family, records, steps
from mcp_bench.servers.saasworld.authoring.traps import namesake, same_name


@family(levels=(1, 2))
def contact_details(b: Builder) -> None:
    company = b.company()
    person = b.person(company)
    account = records.account(b, company, city=b.city())
    old = {"email": f"{person.first[0]}.{person.last}@{company.domain}".lower(), "phone": b.phone()}
    contact = records.contact(b, person, account, **old, title=b.pick(("Buyer", "Planner", "Clerk")))
    field, word, new = b.pick(
        (
            ("email", "email", person.email),
            ("phone", "phone number", b.phone()),
            (
                "title",
                "job title",
                b.pick(("Head of Purchasing", "Store Manager", "Team Lead", "Controller")),
            ),
        )
    )
    b.background("crm", 16 if b.level == 1 else 160)
    values = {"name": person.name, "word": word, "new": new, "company": company.name}

    if b.level == 1:
        b.request(
            "Please change the {word} of {name} to {new}.",
            "{name} has a new {word}: {new}. Can you put it in the CRM?",
            "Update the CRM: {word} of {name} is now {new}.",
            "New {word} for {name} - {new}. Fix it please.",
            **values,
        )
        b.look("crm_contacts_search", query=person.name)
    else:
        other = b.company()
        elsewhere = records.account(b, other, city=b.city())
        records.contact(b, same_name(person, other), elsewhere, phone=b.phone())
        for _ in range(3):
            alike = namesake(b, person, company)
            records.contact(b, alike, account, phone=b.phone())
        b.request(
            "{name} at {company} has a new {word}: {new}. Please update the CRM.",
            "Can you change the {word} of {name} ({company}) to {new}?",
            "Just heard from {company}: the {word} of {name} is {new} now. Put it into the CRM, would you?",
            **values,
        )
        steps.read_account(b, account, "contacts")
    b.do("crm_contacts_update", id=contact["id"], **{field: new})
