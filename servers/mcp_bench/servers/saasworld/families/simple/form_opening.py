"""A form is closed, or opened again.

Level 2: colleagues own forms of the same title, open and closed ones.
"""

from mcp_bench.servers.saasworld.authoring import Builder, Person, Record, family, records

KINDS = ("Warranty registration", "Test group", "Feedback", "Waiting list", "Price survey")


@family(levels=(1, 2), held_out=True)
def form_opening(b: Builder) -> None:
    title = f"{b.pick(KINDS)} {b.product()}"
    owner, second, third = b.sample(b.staff, 3)
    close = b.chance(0.5)
    status = "open" if close else "closed"
    form = _form(b, title, owner, status)
    b.background("forms", 16 if b.level == 1 else 60)
    values = {"title": title, "verb": "close" if close else "reopen", "owner": owner.name}

    if b.level == 1:
        b.request(
            'Please {verb} the form "{title}".',
            'Can you {verb} "{title}"? It is one of our forms.',
            'The form "{title}": please {verb} it.',
            'Could you {verb} our form "{title}" today?',
            **values,
        )
    else:
        for who in (second, third):
            _form(b, title, who, status)
        _form(b, f"{title} (staff)", owner, status)
        _form(b, f"{title} {b.today.year - 1}", owner, status)
        b.request(
            'Please {verb} the form "{title}" that belongs to {owner}.',
            '{owner} asks us to {verb} their form "{title}". Other people have one of that title; leave '
            "those as they are.",
            'Can you {verb} "{title}"? The one that {owner} owns, please, no other.',
            **values,
        )
    b.look("forms_search", query=title)
    b.do("forms_close" if close else "forms_reopen", id=form["id"])


def _form(b: Builder, title: str, owner: Person, status: str) -> Record:
    questions = ["Full name", "City", "Number of people", "Comment"]
    form = records.form(b, title, questions, owner, status=status)
    for _ in range(4 if b.level == 1 else 12):
        person = b.person(b.company())
        answers = (person.name, b.city(), b.integer(1, 30), b.pick(("Thanks", "Please call", "-")))
        state = {"status": b.pick(("new", "accepted", "processed")), "submitted_at": b.moment(-40, -1)}
        records.response(b, form, person, *answers, **state)
    return form
