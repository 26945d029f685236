"""A system is down for maintenance in two offices at night, by the clocks of each.

Traps: local times on either side of midnight UTC, former and deputy site leads, a retired system of the
same name, a freeze, a change policy with an outdated version (4), a ticket that has to be read (5).
"""

from datetime import datetime, timedelta
from typing import NamedTuple

from mcp_bench.servers.saasworld.builder import Builder
from mcp_bench.servers.saasworld.draw import Person
from mcp_bench.servers.saasworld.family import family
from mcp_bench.servers.saasworld.state import Record
from mcp_bench.servers.saasworld.traps import ZONES, policy, utc
from mcp_bench.servers.saasworld.wording import also, free, says, spoken

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
    project = b.add("projects.projects", name=f"Changes {year}", status="active", owner_email=b.me.email)
    b.add("projects.projects", name=f"Changes {year - 1}", status="done", owner_email=b.me.email)
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
    text += "Hours ahead of UTC: " + ", ".join(f"{name} {ahead / 60:+g}" for name, ahead in ZONES.items())
    tasks = ", ".join(f"{work} {before}" for work, before in plan)
    old = dict(zip(CLASSES, (clocks["gold"], clocks["bronze"], clocks["silver"]), strict=True))
    policy(
        b,
        "Change policy",
        text.format(clocks=_listed(clocks), tasks=tasks),
        superseded=text.format(clocks=_listed(old), tasks=tasks.split(", ")[0]),
    )
    _noise(b, ("people", 80), ("calendar", 40), ("chat", 40), ("documents", 25), ("projects", 60))
    what = {"system": system, "one": sites[0].city, "two": sites[1].city, "day": asked}
    ticket = _ask(b, what)
    for item in b.look("documents_search", query="change policy")["items"]:
        b.look("documents_get", id=item["id"])
    if ticket:
        b.look("helpdesk_tickets_search", query=ticket["number"])
        b.look("helpdesk_tickets_get", id=ticket["id"])
    b.look("sheets_rows_search", query=system)
    b.look("people_employees_search", query="Site Lead")
    b.look("projects_search", query=project["name"])
    for work, before in plan:
        due = _shift(f"{day}T00:00:00Z", -before * 24 * 60)[:10]
        task = {"title": f"{work}: {system}", "assignee_email": owner.email, "due_date": due}
        b.do("projects_tasks_create", project_id=project["id"], **task)
    b.look("chat_channels_search", query="site-")
    news = says(f"Maintenance: {system}, {day}.", system, spoken(day))
    for site in sites:
        _event(b, site, system, _window(day, clocks[rank], minutes, site.city))
        b.do("chat_messages_post", channel_id=site.channel["id"], text=news)
        if ticket:
            b.do("chat_dms_send", to=site.lead.email, text=news)
    if ticket:
        b.do("mail_messages_send", to=[technician.email], subject=free("Maintenance"), body=news)
        b.do(
            "helpdesk_comments_create",
            ticket_id=ticket["id"],
            public=False,
            body=says(f"Planned for {day}.", spoken(day)),
        )
        b.do("helpdesk_tickets_update", id=ticket["id"], status="pending")


def _ask(b: Builder, what: dict[str, str]) -> Record | None:
    """Make the request; from level 5 on the details are in a ticket, which is returned."""
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
    b.background("helpdesk", 90)
    b.background("mail", 30)
    person = b.pick(b.staff)
    customer = b.add("helpdesk.customers", name=person.name, email=person.email, company=b.org.name)
    body = (
        "We have trouble with {system} in {one} and {two}. Can it be maintained on {day}? The rest is fine."
    )
    ticket = b.add(
        "helpdesk.tickets",
        customer_id=customer["id"],
        subject="Maintenance wanted",
        description=body.format(**what),
        category="bug",
        status="open",
    )
    b.add("helpdesk.tickets", customer_id=customer["id"], subject="Maintenance wanted", status="open")
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
        values = {"title": title, "status": status, "location": city, "department": "Operations"}
        b.add("people.employees", name=person.name, email=person.email, **values)
    name = f"site-{city.lower().replace(' ', '-')}"
    b.add("chat.channels", name=f"{name}-social", topic="After work", members=[lead.email])
    return Site(city, lead, b.add("chat.channels", name=name, topic=city, members=[b.me.email, lead.email]))


def _systems(b: Builder, system: str, rank: str, owner: Person, technician: Person) -> None:
    """Add the register of systems, with a retired one of the same name."""
    columns = ["System", "State", "Class", "Owner", "Technician"]
    sheet = b.add("sheets.spreadsheets", name="System register", columns=columns)
    rows = [(system, "in use", rank, owner.email, technician.email)]
    for name in SYSTEMS:
        other = b.pick([kind for kind in CLASSES if name != system or kind != rank])
        state = "retired" if name == system else "in use"
        rows.append((name, state, other, b.pick(b.staff).email, b.person(b.company()).email))
    for row in b.sample(rows, len(rows)):
        b.add("sheets.rows", spreadsheet_id=sheet["id"], values=dict(zip(columns, row, strict=True)))
    b.background("sheets", 30)


def _event(b: Builder, site: Site, system: str, times: tuple[str, str]) -> None:
    title = says(f"Maintenance: {system} {site.city}", system)
    fields = {"starts_at": times[0], "ends_at": times[1], "attendees": [site.lead.email]}
    b.do("calendar_events_create", also("room_id"), title=title, **fields)


def _window(day: str, clock: str, minutes: int, city: str) -> tuple[str, str]:
    start = utc(day, clock, city)
    return start, _shift(start, minutes)


def _shift(moment: str, minutes: int) -> str:
    """Return a time so many minutes later."""
    later = datetime.fromisoformat(moment) + timedelta(minutes=minutes)
    return later.strftime("%Y-%m-%dT%H:%M:%SZ")


def _listed(clocks: dict[str, str]) -> str:
    return ", ".join(f"{name} {clock}" for name, clock in clocks.items())


def _noise(b: Builder, *apps: tuple[str, int]) -> None:
    for app, count in apps:
        b.background(app, count)
