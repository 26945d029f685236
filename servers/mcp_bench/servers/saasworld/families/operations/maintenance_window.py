"""A system is down for maintenance in two offices at night, by the clocks of each.

Traps: local times on either side of midnight UTC, former and deputy site leads, a retired system of the
same name, a freeze, a change policy with an outdated version (4), a ticket that has to be read (5).
"""

from typing import NamedTuple

from mcp_bench.servers.saasworld.authoring import Builder, Person, Record, family, records, steps, times
from mcp_bench.servers.saasworld.authoring.traps import ZONES, revised_policy, utc
from mcp_bench.servers.saasworld.authoring.wording import listed, says, spoken

SYSTEMS = (
    "label printing",
    "cold storage control",
    "yard gates",
    "parcel sorting",
    "shift planning",
    "truck scales",
    "badge doors",
    "stock scanners",
)
CLASSES = ("bronze", "silver", "gold")
WORK = ("Back up", "Tell the night shift", "Check spare parts", "Print the manual", "Book a technician")


class Site(NamedTuple):
    city: str
    lead: Person
    channel: Record


@family(levels=(4, 5))
def maintenance_window(b: Builder) -> None:
    system, minutes, year = b.pick(SYSTEMS), b.pick((60, 90)), b.today.year
    sites = [_site(b, city) for city in b.sample(tuple(ZONES), 3)][:2]
    owner, technician, rank = b.pick(b.staff), b.person(b.company()), b.pick(CLASSES)
    _systems(b, system, rank, owner, technician)
    project = records.yearly_projects(b, "Changes", b.me)
    clocks = dict(zip(CLASSES, b.sample(("19:00", "20:30", "21:00", "22:30"), 3), strict=True))
    first = b.integer(12, 25)
    frozen = b.chance(0.5)
    freeze = (first - 2, first + b.integer(1, 3)) if frozen else (first + 4, first + 9)
    day, asked = b.date(freeze[1] + 1 if frozen else first), b.date(first)
    plan = [(work, b.integer(1, 4)) for work in b.sample(WORK, 2)]
    text = (
        f"1. Maintenance takes {minutes} minutes and starts in the evening, local time of each office, by "
        "the class of the system: {clocks}. Classes, owners and technicians are in the spreadsheet System "
        "register.\n"
        f"2. Freeze: from {b.date(freeze[0])} to {b.date(freeze[1])}, both included, nothing is maintained. "
        "What is wanted for then takes place on the first day after it.\n"
        "3. Each office gets an event of its own in the calendar, with its site lead and the system in the "
        "title. Its channel, site- and the name of the city, is told system and date.\n"
        f"4. Tasks in the project Changes {year} for the owner of the system, each titled with its name, a "
        "colon and the system, due so many days before the maintenance: {tasks}.\n"
    )
    if b.level == 5:
        text += (
            "5. Each site lead gets a direct message with system and date.\n"
            "6. The technician gets one mail with system and date.\n"
            "7. The ticket gets an internal note with the date, and becomes pending.\n"
        )
    text += "Hours ahead of UTC: " + times.HOURS_AHEAD
    tasks = listed(dict(plan))
    old = dict(zip(CLASSES, (clocks["gold"], clocks["bronze"], clocks["silver"]), strict=True))
    now = {"clocks": listed(clocks), "tasks": tasks}
    was = {"clocks": listed(old), "tasks": tasks.split(", ")[0]}
    revised_policy(b, "Change policy", text, now, was)
    records.background(b, people=80, calendar=40, chat=40, documents=25, projects=60)
    what = {"system": system, "one": sites[0].city, "two": sites[1].city, "day": asked}
    ticket = _ask(b, what)
    steps.read_documents(b, "change policy")
    if ticket:
        steps.read_ticket(b, ticket)
    b.look("sheets_rows_search", query=system)
    b.look("people_employees_search", query="Site Lead")
    b.look("projects_search", query=project["name"])
    for work, before in plan:
        due = times.day_after(day, -before)
        steps.create_task(b, project, f"{work}: {system}", owner.email, due)
    b.look("chat_channels_search", query="site-")
    news = says(f"Maintenance: {system}, {day}.", system, spoken(day))
    for site in sites:
        start = utc(day, clocks[rank], site.city)
        title = says(f"Maintenance: {system} {site.city}", system)
        steps.plan_meeting(b, title, start, minutes, [site.lead.email])
        steps.announce(b, site.channel, news)
        if ticket:
            steps.send_message(b, site.lead.email, news)
    if ticket:
        steps.send_mail(b, technician.email, "Maintenance", news)
        steps.comment(b, ticket, f"Planned for {day}.", spoken(day), public=False)
        b.do("helpdesk_tickets_update", id=ticket["id"], status="pending")


def _ask(b: Builder, what: dict[str, str]) -> Record | None:
    """Make the request. At level 5 the details are in a ticket: return it."""
    if b.level == 4:
        b.request(
            "Please plan the maintenance of {system} in {one} and {two} for {day}, by our change policy.",
            "There has to be maintenance of {system} in {one} and in {two}, we thought of {day}. Can you set "
            "all of it up as the change policy says?",
            "{day}, {one} and {two}: maintenance of {system}. Our change policy applies, please do "
            "everything that it asks for.",
            **what,
        )
        return None
    records.background(b, helpdesk=90, mail=30)
    person = b.pick(b.staff)
    customer = records.requester(b, person, b.org.name)
    body = (
        "We have trouble with {system} in {one} and {two}. Can it be maintained on {day}? The rest is fine."
    )
    asked = {"description": body.format(**what), "category": "bug"}
    ticket = records.ticket(b, customer, "Maintenance wanted", status="open", **asked)
    records.ticket(b, customer, "Maintenance wanted", status="open")
    b.request(
        "Ticket {number} asks for maintenance. Please plan all of it by our change policy.",
        "Could you take {number}? It is a maintenance request, so the change policy applies, every point.",
        "{name} wants a system maintained, see ticket {number}. Do what our change policy says.",
        number=ticket["number"],
        name=person.name,
    )
    return ticket


def _site(b: Builder, city: str) -> Site:
    lead, former, deputy = (b.person(b.org) for _ in range(3))
    for person, title, status in (
        (former, "Site Lead", "left"),
        (lead, "Site Lead", "active"),
        (deputy, "Deputy Site Lead", "active"),
    ):
        records.employee(b, person, "Operations", title=title, status=status, location=city)
    name = f"site-{city.lower().replace(' ', '-')}"
    records.channel(b, f"{name}-social", "After work", lead)
    return Site(city, lead, records.channel(b, name, city, b.me, lead))


def _systems(b: Builder, system: str, rank: str, owner: Person, technician: Person) -> None:
    """Add the register of systems, with a retired one of the same name."""
    columns = ["System", "State", "Class", "Owner", "Technician"]
    sheet = records.sheet(b, "System register", columns)
    rows = [(system, "in use", rank, owner.email, technician.email)]
    for name in SYSTEMS:
        other = b.pick([kind for kind in CLASSES if name != system or kind != rank])
        state = "retired" if name == system else "in use"
        rows.append((name, state, other, b.pick(b.staff).email, b.person(b.company()).email))
    for row in b.sample(rows, len(rows)):
        records.row(b, sheet, *row)
    b.background("sheets", 30)
