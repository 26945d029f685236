"""Somebody's answers to a form are accepted, rejected or processed, perhaps with a note."""

from mcp_bench.servers.saasworld.authoring import Builder, family, records, steps
from mcp_bench.servers.saasworld.authoring.wording import says

NOTES = (
    ("they pay by invoice", "invoice"),
    ("they need a parking space", "parking"),
    ("they bring a child", "child"),
    ("they called twice", "twice"),
)


@family(levels=(1,))
def form_answer(b: Builder) -> None:
    person, city = b.person(b.company()), b.city()
    form = records.form(b, f"Tasting {city}", ("Full name", "Number of people"), b.pick(b.staff))
    for who in (person, b.person(b.company()), b.person(b.company())):
        records.response(
            b, form, who, who.name, b.integer(1, 9), status="new", submitted_at=b.moment(-20, -1)
        )
    status, by_name, (note, word) = (
        b.pick(("accepted", "rejected", "processed")),
        b.chance(0.5),
        b.pick(NOTES),
    )
    noted = b.chance(0.5)
    b.background("forms", 16)
    b.request(
        "The answers of {who} to our form are {status}.{note} Please put that in.",
        "Please set what {who} sent by form to {status}.{note}",
        "Forms: the response of {who} is {status} now.{note}",
        "Can you mark the response of {who} as {status}?{note}",
        "{who} has filled in one of our forms. It is {status}, so change it there.{note}",
        who=person.name if by_name else person.email,
        status=status,
        note=f" Note: {note}." if noted else "",
    )
    if by_name:
        found = steps.find(b, "forms_responses_search", query=person.name)
    else:
        found = steps.find(b, "forms_responses_list", respondent=person.email)
    more = {"note": says(f"{note[0].upper()}{note[1:]}.", word)} if noted else {}
    b.do("forms_responses_update", id=found["id"], status=status, **more)
