"""An invitation is accepted, declined or accepted tentatively.

Level 2: colleagues invite to meetings of the same title, on the same day and on others.
"""

from mcp_bench.servers.saasworld.authoring import Builder, Person, Record, family, records

KINDS = ("Price round", "Site visit", "Supplier talk", "Lessons learned", "Demo")
ANSWERS = {"accepted": "accept", "declined": "decline", "tentative": "tentatively accept"}


@family(levels=(1, 2), held_out=True)
def invitation_reply(b: Builder) -> None:
    title = f"{b.pick(KINDS)} {b.product()}"
    host, other, third = b.sample(b.staff, 3)
    response = b.pick(tuple(ANSWERS))
    day, later, last = b.sample(range(2, 30), 3)
    event = _invitation(b, title, host, day)
    b.background("calendar", 20 if b.level == 1 else 160)
    values = {"title": title, "verb": ANSWERS[response], "day": b.date(day), "host": host.name}

    if b.level == 1:
        b.request(
            "Please {verb} the invitation to the {title}.",
            "Can you {verb} the invitation to the {title} for me?",
            "There is an invitation to the {title}. Please {verb} it.",
            "Invitation to the {title}: {verb} it, thanks.",
            **values,
        )
    else:
        for who, when in ((host, later), (host, last), (other, day), (third, later)):
            _invitation(b, title, who, when)
        _invitation(b, f"{title} (optional)", host, day)
        b.request(
            "Please {verb} the invitation of {host} to the {title} on {day}, only that one.",
            "{host} has invited me to the {title} on {day}. Please {verb} it. I answer the others myself.",
            "Can you {verb} one invitation for me? It is the {title} on {day}, from {host}.",
            **values,
        )
    b.look("calendar_events_search", query=title)
    b.do("calendar_events_respond", id=event["id"], response=response)


def _invitation(b: Builder, title: str, host: Person, offset: int) -> Record:
    start = f"{b.date(offset)}T{b.integer(8, 17):02d}:00:00Z"
    guests = b.sample([one for one in b.staff if one != host], 2)
    return records.event(b, title, start, b.pick((30, 45, 50)), host, b.me, *guests, my_response="none")
