"""Somebody wants figures about the queue: count the right tickets and report them.

Traps: tickets of other states and categories (2); last year's sheet, a person of nearly the same name and
days that have to be counted back from today (3).
"""

from mcp_bench.servers.saasworld.authoring import Builder, Record, family, records, steps
from mcp_bench.servers.saasworld.authoring.traps import namesake
from mcp_bench.servers.saasworld.authoring.wording import one_of

WORDS = {"billing": "billing", "bug": "bug", "account": "account", "how_to": "how-to", "shipping": "shipping"}
SPELLED = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


@family(levels=(1, 2, 3), held_out=True)
def queue_figures(b: Builder) -> None:
    b.background("helpdesk", {1: 36, 2: 170, 3: 190}[b.level])
    if b.level == 3:
        _weekly(b)
    else:
        _one_figure(b)


def _one_figure(b: Builder) -> None:
    category, boss = b.pick(tuple(WORDS)), b.person(b.org)
    priority = b.pick(("high", "urgent"))
    customers = list(b.state.rows("helpdesk.customers"))
    filters = {"status": "open", "category": category}
    if b.level == 2:
        filters["priority"] = priority
    for _ in range(b.integer(2, 7)):
        values = {"priority": b.pick(("low", "normal", "high", "urgent")), **filters}
        b.add("helpdesk.tickets", customer_id=b.pick(customers)["id"], subject="Please call me", **values)
    count = len(_matching(b, **filters))
    values = {"word": WORDS[category], "to": boss.email, "name": boss.name, "priority": priority}
    if b.level == 1:
        b.request(
            "How many open {word} tickets are there? Send the number to {to} in the chat.",
            "{to} wants to know how many {word} tickets are open. Please send the number as a chat message.",
            "Count the open tickets of category {word} and write the number to {to} (direct message).",
            "Chat to {to}, please: the number of {word} tickets that are open.",
            **values,
        )
    else:
        for one in (boss, namesake(b, boss, b.org)):
            records.employee(b, one, "Support", title="Team Lead")
        records.background(b, people=50, chat=20)
        b.request(
            "{name} needs to know how many {word} tickets with {priority} priority are open. Send them the "
            "number in the chat, directly.",
            "Please count the open {word} tickets of priority {priority} and write the number to {name} in a "
            "direct message.",
            "How many of our open {word} tickets are {priority}? {name} is waiting for the number in the "
            "chat (direct message, not a channel).",
            **values,
        )
        b.look("people_employees_search", query=boss.name)
    b.look("helpdesk_tickets_list", **filters)
    steps.send_message(b, boss.email, f"There are {count}.", _either(count))


def _weekly(b: Builder) -> None:
    """Build level 3: count open, urgent and old tickets, enter the figures and mail them."""
    boss, days = b.person(b.org), b.pick((14, 21, 28))
    area = b.pick(("billing", "bug", "shipping"))
    columns = ["Week of", "Open", "Urgent", f"Over {days} days", WORDS[area].capitalize()]
    sheets = [
        records.sheet(b, f"Support figures {year}", columns, boss)
        for year in (b.today.year - 1, b.today.year)
    ]
    monday = -b.today.weekday()
    for sheet, ago in ((sheets[0], 370), (sheets[1], 0)):
        for week in range(1, 7):
            figures = [b.integer(20, 60), *(b.integer(3, 15) for _ in range(3))]
            records.row(b, sheet, *[b.date(monday - ago - 7 * week), *figures])
    for one in (boss, namesake(b, boss, b.org)):
        records.employee(b, one, "Support", title="Team Lead")
    records.background(b, people=40, sheets=15, mail=30)
    oldest = b.date(-days)
    found = _matching(b, status="open")
    counts = [
        len(found),
        len(_matching(b, status="open", priority="urgent")),
        sum(ticket["created_at"][:10] < oldest for ticket in found),
        len(_matching(b, status="open", category=area)),
    ]
    values = {"name": boss.name, "days": days, "sheet": sheets[1]["name"], "word": WORDS[area], "day": oldest}
    b.request(
        "Weekly figures, please: how many tickets are open now, how many of those are urgent, how many "
        "came in more than {days} days ago (before {day}), and how many are {word} tickets. Add a row for "
        "the week of this Monday to the sheet {sheet}, and mail the four numbers to {name}.",
        "It is time for the support numbers. Of the tickets that are open: total, urgent, older than {days} "
        "days (came in before {day}), category {word}. New row in {sheet} as in the weeks before, dated "
        "this week's Monday, and a mail with all four to {name}.",
        "Could you fill in this week's row (date of Monday) of {sheet} and mail the figures to {name}? It is "
        "open tickets only: all of them, the urgent ones, those from before {day} (more than {days} days), "
        "and the {word} ones.",
        **values,
    )
    steps.read_sheet(b, sheets[1])
    b.look("helpdesk_tickets_list", status="open", limit=100)
    b.look("people_employees_search", query=boss.name)
    cells = [b.date(monday), *(one_of(count, str(count)) for count in counts)]
    steps.add_row(b, sheets[1], *cells)
    said = [f"{column}: {count}" for column, count in zip(columns[1:], counts, strict=True)]
    steps.send_mail(b, boss.email, "Support figures", "\n".join(said), *map(_either, counts))


def _matching(b: Builder, **filters: str) -> list[Record]:
    rows = b.state.rows("helpdesk.tickets")
    return [row for row in rows if all(row.get(name) == value for name, value in filters.items())]


def _either(count: int) -> tuple[str, ...]:
    """Return the spellings of a number."""
    return (str(count), SPELLED[count]) if count < len(SPELLED) else (str(count),)
