"""A system of one office is down for maintenance at night, by the clock of that office.

Traps: an office whose night is another day in UTC, former and deputy site leads, a site lead who is
busy, channels of nearly the same name.
"""

from mcp_bench.servers.saasworld.authoring import Builder, Person, family, records, steps, times
from mcp_bench.servers.saasworld.authoring.traps import ZONES, utc
from mcp_bench.servers.saasworld.authoring.wording import says, spoken

SYSTEMS = ("heating", "sprinklers", "power supply", "goods lift", "cold storage", "ventilation", "alarm")


@family(levels=(3,))
def site_shutdown(b: Builder) -> None:
    system, city = b.pick(SYSTEMS), b.pick(tuple(ZONES))
    day, clock = b.day(8, 25), b.pick(("05:30", "06:00", "19:30", "21:30", "22:00"))
    minutes = b.pick((60, 90))
    lead = _leads(b, city)
    slug = f"site-{city.lower().replace(' ', '-')}"
    channel = records.channel(b, slug, city, b.me, lead)
    records.channel(b, f"{slug}-social", "After work", lead)
    start = utc(day, clock, city)
    end, busy = times.later(start, minutes), b.chance(0.5)
    taken = (-10 * 60, 3 * 24 * 60, 30) if busy else (-10 * 60, 3 * 24 * 60)
    for other in (times.later(start, away) for away in taken):
        records.event(b, "Site review", other, 45, b.staff[1], lead, b.staff[0])
    records.background(b, people=80, calendar=60, chat=40)
    ahead = ZONES[city]
    b.request(
        "The {system} in {city} will be off for maintenance on {day}, {clock} their time ({zone}), for "
        "{minutes} minutes. Put it into the calendar with the site lead there, and name the {system} in the "
        "title. If the site lead is busy then, take the same time one day later. Tell the site lead in a "
        "direct message and the channel {channel}, both with the final date.",
        "Maintenance in {city}, {system}: {day} at {clock} local time ({zone}), {minutes} minutes. Invite "
        "the site lead of {city} (say {system} in the title); should they have something else at that time, "
        "make it a day later, same hour. The date goes to the site lead by DM and into the channel "
        "{channel}.",
        "Please plan the {system} maintenance for {city}. {day}, {clock} on their clocks ({zone}), "
        "{minutes} minutes; one day later at the same hour if the site lead's calendar is taken. An event "
        "with the site lead, {system} in its title, then a DM to them and a post in {channel}, each saying "
        "which day it is.",
        system=system,
        city=city,
        day=day,
        clock=clock,
        zone=f"UTC{'+' if ahead >= 0 else '-'}{abs(ahead) // 60}:{abs(ahead) % 60:02d}",
        minutes=minutes,
        channel=slug,
    )
    b.look("people_employees_search", query=f"Site Lead {city}")
    b.look("calendar_events_busy", attendees=[lead.email], start=start, end=end)
    if busy:
        day, start = times.day_after(day, 1), times.later(start, 24 * 60)
    steps.plan_meeting(b, says(f"Maintenance: {system} {city}", system), start, minutes, [lead.email])
    text = says(f"Maintenance of the {system}: {day} from {clock}.", spoken(day))
    steps.send_message(b, lead.email, text)
    steps.post(b, channel, text)


def _leads(b: Builder, city: str) -> Person:
    """Return the site lead; add a former one, a deputy, and the lead of another office."""
    lead, former, deputy, other = (b.person(b.org) for _ in range(4))
    elsewhere = b.pick([name for name in ZONES if name != city])
    for person, title, status, place in (
        (former, "Site Lead", "left", city),
        (lead, "Site Lead", "active", city),
        (deputy, "Deputy Site Lead", "active", city),
        (other, "Site Lead", "active", elsewhere),
    ):
        records.employee(b, person, "Operations", title=title, status=status, location=place)
    return lead
