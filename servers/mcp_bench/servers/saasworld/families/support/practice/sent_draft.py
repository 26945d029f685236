"""A draft is fine and is sent as it is."""

from mcp_bench.servers.saasworld.authoring import Builder, family

SUBJECTS = ("Price list", "Loading dock", "Fire drill", "Sample boxes", "Road works", "New hours", "Badges")


@family(levels=(1,))
def sent_draft(b: Builder) -> None:
    people = [b.person(b.company()) for _ in range(6)]
    subjects = b.sample(SUBJECTS, 6)
    drafts = []
    for person, subject in zip(people, subjects, strict=True):
        body = f"Hello {person.first}, here is what we agreed on. It holds from {b.day(2, 20)}. {b.me.first}"
        copy = {"cc": [b.pick(b.staff).email]} if b.chance(0.3) else {}
        drafts.append(b.add("mail.drafts", to=[person.email], subject=subject, body=body, **copy))
    b.background("mail", 14)
    it = b.pick((f'the draft "{subjects[0]}"', f"my draft to {people[0].email}"))
    b.request(
        "Please send {it}.",
        "I have read {it} again and it is fine. Send it, please.",
        "Can you send {it} as it is?",
        "It is time: {it} can go out. Would you send it?",
        "Send {it}, please. The other drafts have to wait.",
        it=it,
    )
    b.look("mail_drafts_list")
    b.do("mail_drafts_send", id=drafts[0]["id"])
    text = {name: {"equals": drafts[0][name]} for name in ("subject", "body")}
    name = f"new in mail.messages, with details: {text}"
    b.expect(name, "created", collection="mail.messages", where=text)
