"""The mailbox gets a label with the name of a customer's company, which is in the helpdesk."""

from mcp_bench.servers.saasworld.authoring import Builder, family, records, steps


@family(levels=(1,))
def company_label(b: Builder) -> None:
    company = b.company()
    person = b.person()  # a private address, so that it does not tell the company
    plan = b.pick(("free", "pro", "enterprise"))
    records.requester(b, person, company.name, plan=plan, vip=b.chance(0.2))
    b.background("helpdesk", 18)
    b.background("mail", 8)
    tool, by, whom = b.pick(
        (
            ("helpdesk_customers_search", {"query": person.name}, person.name),
            ("helpdesk_customers_list", {"email": person.email}, person.email),
        )
    )
    b.request(
        "I need a mail label with the name of the company that {who} works for; the helpdesk knows it.",
        "Please look up the company of {who} in the helpdesk and make a mail label of that name.",
        "{who} is in the helpdesk with a company. Can you create a label for my mails that is called exactly "
        "like that company?",
        "New label for my mailbox, please: the name of the company of {who}, as the helpdesk has it.",
        who=whom,
    )
    customer = steps.find(b, tool, **by)
    b.do("mail_labels_create", name=customer["company"])
