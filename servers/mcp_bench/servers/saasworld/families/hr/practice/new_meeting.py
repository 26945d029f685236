"""A meeting is planned: in the only room of an office, or with a colleague from the directory."""

from mcp_bench.servers.saasworld.authoring import DEPARTMENTS, Builder, family, records, steps
from mcp_bench.servers.saasworld.authoring.times import later
from mcp_bench.servers.saasworld.authoring.wording import says

TITLES = (("Stock count", "stock"), ("Fire drill", "drill"), ("Hiring plan", "hiring"), ("New rent", "rent"))


@family(levels=(1,))
def new_meeting(b: Builder) -> None:
    person, (title, word), room = b.person(b.org), b.pick(TITLES), b.chance(0.5)
    cities = b.sample(b.words.cities, 6)
    for street, city in zip(b.sample(b.words.streets, 6), cities, strict=True):
        b.add("calendar.rooms", name=f"{street} room", seats=b.integer(4, 20), city=city)
    b.background("calendar", 16)
    if not room:
        records.colleague(b, person, b.pick(DEPARTMENTS))
        b.background("people", 16)
    day, clock = b.day(3, 30), f"{b.integer(8, 16):02d}:{b.pick(('00', '15', '30', '45'))}"
    start, minutes = f"{day}T{clock}:00Z", b.pick((30, 45, 60, 90))
    end = later(start, minutes)
    b.request(
        'Please plan a meeting "{title}" with {who} on {day} from {clock} to {end} UTC{where}.',
        '{who} and I have to meet{where}: "{title}", {day}, {clock} to {end} UTC. Please invite them.',
        'Can you put "{title}" into the calendar for {day}, {clock} to {end} UTC, and invite {who}? It is a '
        "meeting{where}.",
        'Meeting on {day}{where}, {clock}-{end} UTC, called "{title}". Invite {who}, please.',
        title=title,
        who=person.email if room else person.name,
        day=day,
        clock=clock,
        end=end[11:16],
        where=f" in the room of our {cities[0]} office" if room else "",
    )
    called = says(title, word)
    if not room:
        found = steps.find(b, "people_employees_search", query=person.name)
        steps.plan_meeting(b, called, start, minutes, [found["email"]])
        return
    place = steps.find(b, "calendar_rooms_list", city=cities[0])
    when = {"starts_at": start, "ends_at": end, "room_id": place["id"]}
    b.do("calendar_events_create", title=called, attendees=steps.invited(b, [person.email]), **when)
