"""Somebody asks about a colleague, and hears by mail who the manager is, which office or since when."""

from mcp_bench.servers.saasworld.authoring import DEPARTMENTS, Builder, family, records, steps
from mcp_bench.servers.saasworld.authoring.wording import spoken


@family(levels=(1,))
def colleague_news(b: Builder) -> None:
    person, (who, boss) = b.person(b.org), b.sample(b.staff, 2)
    city, day = b.city(), b.day(-2000, -100)
    records.colleague(b, person, b.pick(DEPARTMENTS), manager=boss, location=city, start_date=day)
    b.background("people", 18)
    b.background("mail", 6)
    said, text, mention = b.pick(
        (
            ("who the manager is", f"The manager is {boss.email}.", (boss.email, boss.name)),
            ("in which city the office is", f"The office is in {city}.", (city,)),
            ("when the first day was", f"The first day was {day}.", spoken(day)),
        )
    )
    tool, by, whom = b.pick(
        (
            ("people_employees_search", {"query": person.name}, person.name),
            ("people_employees_list", {"email": person.email}, person.email),
        )
    )
    b.request(
        "{to} asks about {who}, namely {said}. Please look it up and answer by mail.",
        "Please look up our colleague {who} and tell {to} in a mail {said}.",
        "Can you write a mail to {to}? They want to know about {who}, {said}.",
        "I owe {to} an answer about our colleague {who}, namely {said}. Look it up and mail it, please.",
        to=who.email,
        who=whom,
        said=said,
    )
    steps.find(b, tool, **by)
    steps.send_mail(b, who.email, f"Your question about {person.name}", text, mention)
