"""A call, meeting or mail that took place is entered in the CRM, as done."""

from mcp_bench.servers.saasworld.authoring import Builder, family, records, steps
from mcp_bench.servers.saasworld.authoring.wording import also, says

SUBJECTS = (
    ("delivery times", "delivery"),
    ("the price list", "price"),
    ("a second warehouse", "warehouse"),
    ("their complaint", "complaint"),
    ("training dates", "training"),
)


@family(levels=(1,))
def call_log(b: Builder) -> None:
    company, (what, word), day = b.company(), b.pick(SUBJECTS), b.day(-6, 0)
    person = b.person(company)
    account = records.account(b, company, city=b.city(), domain=company.domain)
    records.contact(b, person, account, phone=b.phone(), title=b.pick(("Owner", "Buyer", "Planner")))
    kind, did = b.pick(
        (("call", "had a call with"), ("meeting", "had a meeting with"), ("email", "wrote an email to"))
    )
    by_mail = b.chance(0.3)
    b.background("crm", 16)
    b.request(
        "I {did} {who} about {what}. Log it in the CRM with the date {day}, as done.",
        "Please enter in the CRM that I {did} {who}: subject {what}, date {day}, done.",
        "For the records: on {day} I {did} {who}, about {what}. Put it into the CRM as done, with that date.",
        "Can you log something as done in the CRM? I {did} {who} on {day}; it was about {what}.",
        did=did,
        who=person.email if by_mail else person.name,
        what=what,
        day=day,
    )
    found = steps.find(b, "crm_contacts_search", query=person.email if by_mail else person.name)
    about = {"kind": kind, "subject": says(what[0].upper() + what[1:], f"{word}*"), "contact_id": found["id"]}
    links = also("account_id", "deal_id", "owner_email")
    b.do("crm_activities_create", links, due_date=day, status="done", **about)
