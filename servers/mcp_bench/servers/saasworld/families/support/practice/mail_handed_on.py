"""A mail is forwarded to one or two colleagues, with a few words or without."""

from mcp_bench.servers.saasworld.apps.mail import inbox
from mcp_bench.servers.saasworld.authoring import Builder, family, steps
from mcp_bench.servers.saasworld.authoring.wording import says, spoken

SUBJECTS = ("Complaint about the {}", "Offer: {}", "Question on the {}", "New prices of the {}")


@family(levels=(1,))
def mail_handed_on(b: Builder) -> None:
    person = b.person(b.company())
    subject = b.pick(SUBJECTS).format(b.product())
    body = f"Hello {b.me.first}, details as agreed in {b.city()}. Best, {person.first}"
    mail = inbox(b, person.email, subject, body)
    b.background("mail", 20)
    to = [one.email for one in b.sample(b.staff, b.pick((1, 1, 2)))]
    day, number = b.day(2, 30), b.integer(11, 89)
    text, mention = b.pick(
        (
            ("", ()),
            (f"Please answer by {day}.", spoken(day)),
            (f"We need {number} of these.", (str(number),)),
        )
    )
    tool, by, it = b.pick(
        (
            ("mail_messages_search", {"query": subject}, f'the mail "{subject}"'),
            ("mail_messages_list", {"sender": person.email}, f"the mail from {person.email}"),
        )
    )
    b.request(
        "Please forward {it} to {to}.{text}",
        "This is not for me: please forward {it} to {to}.{text}",
        "Can you forward {it}? It is meant for {to}.{text}",
        "Please send {it} on, as a forward. It goes to {to}.{text}",
        it=it,
        to=" and ".join(to) + (" (one mail to both)" if to[1:] else ""),
        text=f' Write above it: "{text}"' if text else "",
    )
    steps.find(b, tool, **by)
    above = {"body": says(text, mention)} if text else {}
    b.do("mail_messages_forward", id=mail["id"], to=to, **above)
