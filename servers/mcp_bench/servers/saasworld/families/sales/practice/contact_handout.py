"""A colleague gets a fact about a contact by mail: the phone number, address or job title in the CRM."""

from mcp_bench.servers.saasworld.authoring import Builder, family, records, steps

TITLES = ("Head of Purchasing", "Store Manager", "Team Lead", "Controller", "Plant Engineer", "Board Member")


@family(levels=(1,))
def contact_handout(b: Builder) -> None:
    company, colleague, phone = b.company(), b.person(b.org), b.phone()
    person, title = b.person(company), b.pick(TITLES)
    address = f"{person.first}{b.integer(2, 99)}@{company.domain}".lower()
    account = records.account(b, company, city=b.city(), domain=company.domain)
    records.contact(b, person, account, email=address, phone=phone, title=title)
    field, word = b.pick((("phone", "phone number"), ("email", "email address"), ("title", "job title")))
    b.background("crm", 16)
    b.background("mail", 16)
    b.request(
        "Please mail {to} the {word} of {name}. It is in the CRM.",
        "{to} needs the {word} of {name} from {company}. Can you look it up in the CRM and mail it?",
        "What is the {word} of {name}? Send it to {to} by mail, please.",
        "Look up {name} ({company}) in the CRM and write the {word} to {to}, thanks.",
        "Mail to {to}, please: the {word} that we have of {name}.",
        to=colleague.email,
        word=word,
        name=person.name,
        company=company.name,
    )
    found = steps.find(b, "crm_contacts_search", query=person.name)
    fact = found[field]
    said = (fact, fact.replace(" ", "-"), fact.removeprefix("+1 ")) if field == "phone" else fact
    text = f"Hello {colleague.first}, the {word} of {person.name} is {fact}. {b.me.first}"
    steps.send_mail(b, colleague.email, f"{person.name}: {word}", text, said)
