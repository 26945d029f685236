"""A document is written down for a colleague, who is to own it."""

from mcp_bench.servers.saasworld.authoring import DEPARTMENTS, Builder, family, records, steps
from mcp_bench.servers.saasworld.authoring.wording import also, says, spoken


@family(levels=(1,))
def written_document(b: Builder) -> None:
    owner, day, number, city = b.person(b.org), b.day(5, 90), b.integer(11, 89), b.city()
    records.colleague(b, owner, b.pick(DEPARTMENTS))
    b.background("people", 16)
    b.background("documents", 10)
    kind = b.pick(("guide", "policy", "note"))
    title, text, mention = b.pick(
        (
            (f"Bicycles {city}", f"All bicycles have to be gone by {day}.", spoken(day)),
            (f"Lockers {city}", f"There are {number} lockers in the basement.", (str(number),)),
            (f"Guests {city}", f"At most {number} guests can be in the building.", (str(number),)),
            (f"Heating {city}", f"The heating is off until {day}.", spoken(day)),
        )
    )
    b.request(
        'Please write a {kind} "{title}", owned by {owner}. Text: "{text}"',
        'Can you make a document for {owner}, who will own it? It is a {kind}, "{title}", and says: "{text}"',
        '{owner} needs a {kind} called "{title}" as its owner. The text is "{text}" Please create it.',
        'New {kind}: "{title}". It reads "{text}" and belongs to {owner}. Please put it in.',
        kind=kind,
        title=title,
        owner=owner.name,
        text=text,
    )
    found = steps.find(b, "people_employees_search", query=owner.name)
    what = {"title": title, "kind": kind, "body": says(text, mention)}
    b.do("documents_create", also("version", "effective_from"), owner_email=found["email"], **what)
