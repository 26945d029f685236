"""A mail to a colleague, whose address is in the directory, is drafted and not sent."""

from mcp_bench.servers.saasworld.authoring import DEPARTMENTS, Builder, family, records, steps
from mcp_bench.servers.saasworld.authoring.wording import free, says, spoken


@family(levels=(1,))
def prepared_mail(b: Builder) -> None:
    person, day, number = b.person(b.org), b.day(3, 40), b.integer(11, 89)
    records.colleague(b, person, b.pick(DEPARTMENTS))
    b.background("people", 18)
    b.background("mail", 6)
    said, mention = b.pick(
        (
            (f"the stocktaking starts on {day}", spoken(day)),
            (f"we expect {number} guests", (str(number),)),
            (f"the repair costs {number} USD", (str(number),)),
            (f"I am away until {day}", spoken(day)),
        )
    )
    b.request(
        "Please draft a mail to {name}: {said}. I will send it myself.",
        "Can you prepare a mail to {name} that says {said}? Only as a draft.",
        "I want to write to {name} that {said}. Put a draft into my mailbox, please, and do not send it yet.",
        "Draft, please, not to be sent yet: a mail to our colleague {name} with the news that {said}.",
        name=person.name,
        said=said,
    )
    found = steps.find(b, "people_employees_search", query=person.name)
    text = says(f"Hello {person.first}, {said}. Best, {b.me.first}", mention)
    b.do("mail_drafts_create", to=[found["email"]], subject=free("News"), body=text)
