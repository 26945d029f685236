"""A customer who is known has called about a problem, and it becomes a ticket."""

from mcp_bench.servers.saasworld.authoring import Builder, family, records, steps
from mcp_bench.servers.saasworld.authoring.wording import says

CALLS = (
    ("The scanner stops", "scanner", "bug", "a bug"),
    ("Wrong tax on the bill", "tax", "billing", "a billing case"),
    ("How do I print labels?", "label*", "how_to", "a how-to question"),
    ("Password of a new colleague", "password", "account", "an account case"),
    ("The crate is dented", "dented", "shipping", "a shipping case"),
    ("A calendar view, please", "calendar", "feature_request", "a feature request"),
)


@family(levels=(1,))
def phoned_ticket(b: Builder) -> None:
    company = b.company()
    person = b.person(company)
    plan = b.pick(("free", "pro", "enterprise"))
    records.requester(b, person, company.name, plan=plan, vip=False)
    b.background("helpdesk", 18)
    subject, word, category, kind = b.pick(CALLS)
    priority, tag = b.pick(("low", "high", "urgent")), b.pick(("", "phone", "callback"))
    tool, by, whom = b.pick(
        (
            ("helpdesk_customers_search", {"query": person.name}, person.name),
            ("helpdesk_customers_list", {"email": person.email}, person.email),
        )
    )
    b.request(
        '{who} has called: "{subject}". Please open a ticket, {priority} priority, {kind}{tag}.',
        'Please make a ticket for {who}, "{subject}". It is {kind}{tag}, priority {priority}.',
        'Can you open a ticket of {priority} priority? The customer is {who}, the subject "{subject}". '
        "File it as {kind}{tag}.",
        'New ticket, "{subject}", from {who}: {kind}{tag}, priority {priority}.',
        who=whom,
        subject=subject,
        kind=kind,
        priority=priority,
        tag=f' with the tag "{tag}"' if tag else "",
    )
    customer = steps.find(b, tool, **by)
    about = {"subject": says(subject, word), "category": category, "priority": priority}
    tags = {"tags": [tag]} if tag else {}
    b.do("helpdesk_tickets_create", customer_id=customer["id"], **about, **tags)
