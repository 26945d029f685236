"""A draft is not needed any more and is deleted."""

from mcp_bench.servers.saasworld.authoring import Builder, family

SUBJECTS = ("Trade fair", "Old forklift", "Team photo", "Cleaning plan", "First aid", "Bike racks", "Survey")


@family(levels=(1,))
def dropped_draft(b: Builder) -> None:
    people = [b.person(b.company()) for _ in range(6)]
    subjects = b.sample(SUBJECTS, 6)
    drafts = []
    for person, subject in zip(people, subjects, strict=True):
        body = f"Hello {person.first}, let us talk about it on {b.day(2, 20)}. {b.me.first}"
        drafts.append(b.add("mail.drafts", to=[person.email], subject=subject, body=body))
    b.background("mail", 14)
    it = b.pick((f'the draft "{subjects[0]}"', f"the draft to {people[0].email}"))
    b.request(
        "Please delete {it}.",
        "We talked on the phone, so {it} is not needed any more. Delete it, please.",
        "Can you delete {it}? It was never sent.",
        "In my mailbox there is {it}, which is out of date. Please throw it away.",
        "Get rid of {it} for me, would you? The other drafts stay.",
        it=it,
    )
    b.look("mail_drafts_list")
    b.do("mail_drafts_delete", id=drafts[0]["id"])
