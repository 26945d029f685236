"""A mail is answered, to its sender or to everybody on it."""

from mcp_bench.servers.saasworld.authoring import Builder, family, steps
from mcp_bench.servers.saasworld.authoring.wording import also, says, spoken

SUBJECTS = ("Quote for the {}", "Delivery of the {}", "Visit because of the {}", "Spare parts for the {}")


@family(levels=(1,))
def mail_answer(b: Builder) -> None:
    person, colleague, helper = b.person(b.company()), *b.sample(b.staff, 2)
    subject, everybody = b.pick(SUBJECTS).format(b.product()), b.chance(0.35)
    body = f"Hello {b.me.first}, we wait for your answer until {b.day(1, 9)}. Best, {person.first}"
    to = [b.me.email, colleague.email] if everybody else [b.me.email]
    when = {"folder": "inbox", "sent_at": b.moment(-6, -1)}
    mail = b.add("mail.messages", sender=person.email, to=to, subject=subject, body=body, **when)
    b.background("mail", 18)
    day, number = b.day(10, 30), b.integer(11, 89)
    said, mention = b.pick(
        (
            (f"{day} suits us", spoken(day)),
            (f"we need {number} pieces", (str(number),)),
            (f"the answer comes by {day}", spoken(day)),
            (f"{helper.name} will call", (helper.first, helper.last)),
        )
    )
    tool, by, it = b.pick(
        (
            ("mail_messages_search", {"query": subject}, f'the mail "{subject}"'),
            ("mail_messages_list", {"sender": person.email}, f"the mail from {person.email}"),
        )
    )
    b.request(
        "Please answer {it}{all}: {said}.",
        "Can you reply to {it}{all}? Say that {said}.",
        "{said} - please write that back, as an answer to {it}{all}.",
        "Write back to {it}{all}, would you? The answer is: {said}.",
        it=it,
        all=", to everybody on it" if everybody else "",
        said=said,
    )
    steps.find(b, tool, **by)
    answer = says(f"Hello {person.first}, {said}. Best, {b.me.first}", mention)
    everyone = {"reply_all": True} if everybody else {}
    b.do("mail_messages_reply", also("thread_id"), id=mail["id"], body=answer, **everyone)
