"""A planned call or meeting is deleted from the CRM; it is named by its day, or by who is in charge."""

from mcp_bench.servers.saasworld.authoring import Builder, family, records, steps


@family(levels=(1,))
def activity_removal(b: Builder) -> None:
    company, owner, day = b.company(), b.person(b.org), b.day(21, 50)
    person, (kind, other) = b.person(company), b.sample(("call", "meeting", "email"), 2)
    account = records.account(b, company, city=b.city(), domain=company.domain)
    contact = records.contact(b, person, account, phone=b.phone())
    plan = {"account_id": account["id"], "contact_id": contact["id"], "owner_email": owner.email}
    for what, when in ((kind, day), (other, b.day(21, 50))):
        b.add("crm.activities", kind=what, subject=f"Plans for {b.city()}", due_date=when, **plan)
    by_day = b.chance(0.5)
    b.background("crm", 16)
    b.request(
        "Please delete the planned {kind} {which} from the CRM.",
        "The planned {kind} {which} will not take place. Delete it in the CRM, please.",
        "Nobody needs the {kind} {which} in the CRM any more. Can you delete it there?",
        "Can you take the {kind} {which} out of the CRM? The customer has called it off.",
        "{company} does not want it any more: delete the {kind} {which}, thanks.",
        kind=kind,
        which=f"of {day}" if by_day else f"of {owner.email}",
        company=company.name,
    )
    if by_day:
        found = steps.find(b, "crm_activities_list", kind=kind, due_date_min=day, due_date_max=day)
    else:
        found = steps.find(b, "crm_activities_list", kind=kind, owner_email=owner.email)
    b.do("crm_activities_delete", id=found["id"])
