"""A mail gets a label, or goes to the archive or the trash.

Level 2: the sender wrote about something else, too, and others of the same or nearly the same name wrote
about the same.
"""

from mcp_bench.servers.saasworld.apps.mail import inbox
from mcp_bench.servers.saasworld.authoring import Builder, Person, Record, family
from mcp_bench.servers.saasworld.authoring.traps import namesake, same_name

SUBJECTS = ("Offer: {}", "Question about the {}", "Your order {}", "Photos of the {}", "Complaint: {}")
LABELS = ("Invoices", "Follow up", "Waiting", "Personal", "Urgent")


@family(levels=(1, 2))
def mail_filing(b: Builder) -> None:
    company = b.company()
    person = b.person(company)
    kind = b.pick(SUBJECTS)
    subject = kind.format(b.product())
    mail = _mail(b, person, subject)
    label = b.pick(LABELS)
    folder = b.pick(("archive", "trash", ""))
    wish = f"move it to the {folder}" if folder else f"give it the label {label}"
    b.background("mail", 20 if b.level == 1 else 150)
    values = {"subject": subject, "wish": wish, "name": person.name, "company": company.name}

    if b.level == 1:
        b.request(
            'The mail "{subject}": please {wish}.',
            'Can you find the mail "{subject}" and {wish}?',
            'There is a mail "{subject}" in my inbox, {wish}.',
            'Mail "{subject}" - {wish}, thanks.',
            **values,
        )
    else:
        other = b.company()
        _mail(b, person, kind.format(b.product()))
        _mail(b, same_name(person, other), subject)
        for _ in range(3):
            _mail(b, namesake(b, person, company), subject)
        b.request(
            'I got "{subject}" from {name} of {company}. Please {wish}, and leave the others.',
            'Several people wrote to me with the subject "{subject}". The one from {name} at {company}: '
            "{wish}, please.",
            '{name} from {company} sent me "{subject}". Can you find that mail and {wish}?',
            **values,
        )
    b.look("mail_messages_search", query=subject)
    if folder:
        b.do("mail_messages_move", id=mail["id"], folder=folder)
    else:
        b.do("mail_messages_label", id=mail["id"], add=[label])


def _mail(b: Builder, person: Person, subject: str) -> Record:
    body = f"Hello {b.me.first}, could you answer by {b.day(1, 20)}? Best, {person.first}, {b.city()}"
    return inbox(b, person.email, subject, body)
