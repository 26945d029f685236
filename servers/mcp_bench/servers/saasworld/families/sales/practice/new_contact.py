"""A person at an account is added to the CRM."""

from typing import Any

from mcp_bench.servers.saasworld.authoring import Builder, family, records, steps

TITLES = ("Purchasing Assistant", "Site Manager", "Head of Quality", "Treasurer", "Project Lead")


@family(levels=(1,))
def new_contact(b: Builder) -> None:
    company, title, phone = b.company(), b.pick(TITLES), b.phone()
    person, before = b.person(company), b.person(company)
    account = records.account(
        b, company, city=b.city(), domain=company.domain, owner_email=b.pick(b.staff).email
    )
    records.contact(b, before, account, phone=b.phone(), title=b.pick(TITLES))
    options: tuple[tuple[dict[str, Any], str], ...] = (
        ({"title": title}, f"{title}"),
        ({"phone": phone}, f"phone {phone}"),
        ({"title": title, "phone": phone}, f"{title}, phone {phone}"),
        ({"is_primary": True}, "who is the primary contact"),
    )
    more, rest = b.pick(options)
    b.background("crm", 16)
    b.request(
        "Please add {name} to our contacts at {company}: {email}, {rest}.",
        "There is somebody new at {company}: {name} ({email}), {rest}. Can you put that into the CRM?",
        "New contact for the account {company}, please: {name}, {email}, {rest}.",
        "I met {name} of {company}. Add this contact to the account: {email}, {rest}.",
        "{name}, {email}, {rest}. Works at {company}, so add it to their account, thanks.",
        name=person.name,
        company=company.name,
        email=person.email,
        rest=rest,
    )
    found = steps.find(b, "crm_accounts_search", query=company.name)
    b.do("crm_contacts_create", name=person.name, email=person.email, account_id=found["id"], **more)
