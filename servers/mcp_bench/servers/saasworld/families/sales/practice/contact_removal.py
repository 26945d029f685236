"""A contact is deleted from the CRM; it is named by name, address or phone number."""

from mcp_bench.servers.saasworld.authoring import Builder, family, records, steps

REASONS = (
    "they want us to forget their data",
    "it was only a test",
    "I entered it by mistake",
    "it belongs in another system",
)


@family(levels=(1,))
def contact_removal(b: Builder) -> None:
    company, phone, why = b.company(), b.phone(), b.pick(REASONS)
    person, other = b.person(company), b.person(company)
    account = records.account(
        b, company, city=b.city(), domain=company.domain, owner_email=b.pick(b.staff).email
    )
    records.contact(b, person, account, phone=phone, title=b.pick(("Buyer", "Planner", "Clerk")))
    records.contact(b, other, account, phone=b.phone(), title=b.pick(("Owner", "Trainee", "Driver")))
    who = b.pick((person.name, person.email, phone))
    b.background("crm", 16)
    b.request(
        "Please delete the contact {who} from the CRM: {why}.",
        "The contact {who} has to go, {why}. Delete it, please.",
        "Can you remove the contact {who} for good? The reason is that {why}.",
        "There is a contact {who} in the CRM that should not be there, {why}. Please delete it.",
        "Delete {who} from our contacts, thanks.",
        who={phone: f"with the phone number {phone}"}.get(who, who),
        why=why,
    )
    if who == person.email:
        found = steps.find(b, "crm_contacts_list", email=who)
    else:
        found = steps.find(b, "crm_contacts_search", query=who)
    b.do("crm_contacts_delete", id=found["id"])
