"""A contact has a new address, number or title; level 2 has another person of the same name."""

from mcp_bench.servers.saasworld.builder import Builder
from mcp_bench.servers.saasworld.family import family
from mcp_bench.servers.saasworld.traps import namesake


@family(levels=(1, 2))
def contact_details(b: Builder) -> None:
    company = b.company()
    person = b.person(company)
    account = b.add("crm.accounts", name=company.name, status="customer", city=b.city())
    contact = b.add(
        "crm.contacts",
        name=person.name,
        email=f"{person.first[0]}.{person.last}@{company.domain}".lower(),
        phone=b.phone(),
        title=b.pick(("Buyer", "Planner", "Clerk")),
        account_id=account["id"],
    )
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
        elsewhere = b.add("crm.accounts", name=other.name, status="customer", city=b.city())
        same_name = f"{person.first}.{person.last}@{other.domain}".lower()
        b.add("crm.contacts", name=person.name, email=same_name, phone=b.phone(), account_id=elsewhere["id"])
        for _ in range(3):
            alike = namesake(b, person, company)
            b.add(
                "crm.contacts", name=alike.name, email=alike.email, phone=b.phone(), account_id=account["id"]
            )
        b.request(
            "{name} at {company} has a new {word}: {new}. Please update the CRM.",
            "Can you change the {word} of {name} ({company}) to {new}?",
            "Just heard from {company}: the {word} of {name} is {new} now. Put it into the CRM, would you?",
            **values,
        )
        b.look("crm_accounts_search", query=company.name)
        b.look("crm_contacts_list", account_id=account["id"])
    b.do("crm_contacts_update", id=contact["id"], **{field: new})
