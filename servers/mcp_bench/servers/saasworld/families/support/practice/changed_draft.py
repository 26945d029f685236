"""A draft goes to somebody else, gets another subject or text, or somebody in copy."""

from mcp_bench.servers.saasworld.authoring import Builder, family
from mcp_bench.servers.saasworld.authoring.wording import says, spoken

SUBJECTS = ("Summer party", "Key cards", "Offer for the roof", "Minutes", "New printer", "Parking", "Lunch")


@family(levels=(1,))
def changed_draft(b: Builder) -> None:
    people = [b.person(b.company()) for _ in range(6)]
    subjects = b.sample(SUBJECTS, 6)
    drafts = []
    for person, subject in zip(people, subjects, strict=True):
        body = f"Hello {person.first}, more about it on {b.day(2, 20)}. {b.me.first}"
        drafts.append(b.add("mail.drafts", to=[person.email], subject=subject, body=body))
    b.background("mail", 12)
    other, day, number = b.person(b.company()).email, b.day(21, 40), b.integer(11, 89)
    text = f"We meet on {day}."
    field, value, said = b.pick(
        (
            ("to", [other], f"it goes to {other} instead"),
            ("cc", [other], f"put {other} in copy"),
            ("subject", says(f"Order {number}", str(number)), f'the new subject is "Order {number}"'),
            ("body", says(text, spoken(day)), f'the whole text is now "{text}"'),
        )
    )
    it = b.pick((f'the draft "{subjects[0]}"', f"the draft to {people[0].email}"))
    b.request(
        "Please change {it}: {said}.",
        "Can you change {it} for me? The change: {said}.",
        "I have not sent {it} yet. Please change it: {said}.",
        "One thing about {it} in my mailbox, {said}. Would you change that? No need to send it.",
        it=it,
        said=said,
    )
    b.look("mail_drafts_list")
    b.do("mail_drafts_update", id=drafts[0]["id"], **{field: value})
