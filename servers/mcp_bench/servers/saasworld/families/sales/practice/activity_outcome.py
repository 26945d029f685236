"""Something planned with a customer is done, gets another day or goes to a colleague."""

from mcp_bench.servers.saasworld.authoring import Builder, family, records, steps

SUBJECTS = ("Demo of the {}", "Questions about the {}", "Offer for the {}", "Training for the {}")


@family(levels=(1,))
def activity_outcome(b: Builder) -> None:
    company, colleague, day = b.company(), b.person(b.org), b.day(3, 40)
    person, kind, subject = (
        b.person(company),
        b.pick(("call", "meeting")),
        b.pick(SUBJECTS).format(b.product()),
    )
    account = records.account(b, company, city=b.city(), domain=company.domain)
    contact = records.contact(b, person, account, phone=b.phone())
    plan = {"account_id": account["id"], "contact_id": contact["id"], "owner_email": b.pick(b.staff).email}
    b.add("crm.activities", kind=kind, subject=subject, due_date=b.day(-3, 2), **plan)
    new, news = b.pick(
        (
            ({"status": "done"}, "is done"),
            ({"due_date": day}, f"will be on {day} instead"),
            ({"owner_email": colleague.email}, f"is now up to {colleague.email}"),
            ({"due_date": day, "owner_email": colleague.email}, f"moves to {day} and to {colleague.email}"),
        )
    )
    b.background("crm", 16)
    b.request(
        'The {kind} "{subject}" {news}. Please put that into the CRM.',
        'CRM: the {kind} "{subject}" {news}.',
        'Can you update the planned {kind} "{subject}"? It {news}.',
        '"{subject}" (a {kind} in the CRM) {news}, please change it.',
        'I spoke to {company}: our {kind} "{subject}" {news}. Fix the entry, thanks.',
        kind=kind,
        subject=subject,
        news=news,
        company=company.name,
    )
    found = steps.find(b, "crm_activities_search", query=subject)
    b.do("crm_activities_update", id=found["id"], **new)
