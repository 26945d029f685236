"""A meeting room cannot be used for a day; the meetings in it need another place.

Traps: rooms of the same name in another office, meetings that were cancelled or are on another day (2),
rooms that are too small or taken (3), a room policy with an outdated version, a meeting that fits
nowhere (4).
"""

from typing import NamedTuple

from mcp_bench.servers.saasworld.authoring import Builder, Person, Record, family, records, steps, times
from mcp_bench.servers.saasworld.authoring.traps import revised_policy
from mcp_bench.servers.saasworld.authoring.wording import says, spoken

TITLES = ("Vendor review", "Shift planning", "Audit talk", "Safety training", "Route planning", "Lease talk")


@family(levels=(2, 3, 4), held_out=True)
def room_closure(b: Builder) -> None:
    city, other = b.sample(b.words.cities, 2)
    names = [f"{name} room" for name in b.sample(b.words.streets, 6)]
    seats = b.sample((4, 5, 7, 9, 12, 16), 6)
    rooms = [b.add("calendar.rooms", name=n, seats=s, city=city) for n, s in zip(names, seats, strict=True)]
    there = [b.add("calendar.rooms", name=n, seats=b.integer(4, 20), city=other) for n in names]
    day = times.workday(b.day(3, 20))
    if b.level == 2:
        _move_one(b, rooms, there, city, day)
    else:
        _move_all(b, rooms, there, city, day)


def _move_one(b: Builder, rooms: list[Record], there: list[Record], city: str, day: str) -> None:
    title = f"{b.pick(TITLES)} {b.company().name}"
    closed, new = rooms[0], rooms[1]
    event = _event(b, closed, title, day, 10, 3, organizer=b.me)
    _event(b, closed, title, _next(_next(day)), 10, 3, organizer=b.me)
    _event(b, there[0], f"{title} part 2", day, 14, 3, organizer=b.me)
    _event(b, closed, title, day, 15, 3, organizer=b.me, status="cancelled")
    b.background("calendar", 110)
    b.request(
        "The {old} in {city} is closed on {day}. Please move my meeting {title} of that day to the {new} "
        "there, same time.",
        "{title} on {day} cannot be in the {old} ({city}). Can you put it into the {new} of that office?",
        "No {old} in {city} on {day}, they repair it. {title} of that day goes to the {new} in {city}.",
        old=closed["name"],
        new=new["name"],
        city=city,
        day=day,
        title=title,
    )
    b.look("calendar_rooms_list", city=city)
    b.look("calendar_events_search", query=title)
    b.do("calendar_events_update", id=event["id"], room_id=new["id"])


def _move_all(b: Builder, rooms: list[Record], there: list[Record], city: str, day: str) -> None:
    rooms = sorted(rooms, key=lambda room: int(room["seats"]))
    closed, free_rooms = rooms.pop(4), rooms
    spare = b.integer(1, 2) if b.level == 4 else 0
    titles, hosts = b.sample(TITLES, 4), b.sample(b.staff, 4)
    hours = b.sample((8, 9, 11, 13, 15, 16), 3 if b.level == 3 else 4)
    sizes = [3, b.integer(4, 5), b.integer(6, 8), 11][: len(hours)]
    meetings = [
        _event(b, closed, title, day, hour, size, organizer=host)
        for title, hour, size, host in zip(titles, hours, sizes, hosts, strict=False)
    ]
    taken = [_fit(free_rooms, size + spare) for size in sizes[: 2 if b.level == 3 else 3]]
    for room, hour in list(zip(taken, hours, strict=False))[1:]:
        if room:
            _event(b, room, "Interview", day, hour, 2, organizer=b.me)
    blocked = {hour: room["id"] for room, hour in list(zip(taken, hours, strict=False))[1:] if room}
    if b.level == 4:
        big = free_rooms[-1]
        _event(b, big, "Town hall", day, hours[3], 9, organizer=b.me)
        blocked[hours[3]] = big["id"]
    _event(b, closed, "Retro", day, 18, 4, organizer=b.me, status="cancelled")
    _event(b, closed, "Budget talk", _next(_next(day)), 9, 4, organizer=hosts[0])
    _event(b, there[0], "Budget talk", day, 9, 4, organizer=hosts[1])
    records.background(b, calendar=110, chat=60)
    values = {"room": closed["name"], "city": city, "day": day}
    rules = _rules(b, city, closed, spare) if b.level == 4 else None
    if rules is None:
        b.request(
            "The {room} in {city} is closed on {day}. Each meeting in it that day goes, at its time, to the "
            "smallest free room of that office with a seat for everybody (attendees plus organizer). Then "
            "send each organizer a direct message with the name of the new room.",
            "No {room} ({city}) on {day}, please find other rooms there for that day's meetings: free at "
            "the time, enough seats for organizer and attendees, and the smallest such one. The organizers "
            "get a chat DM with the new room.",
            "Please clear the {room} in {city} for {day}. Its meetings keep their time and move to the "
            "smallest room of the same office that is free and seats attendees and organizer. Tell each "
            "organizer the new room by direct message.",
            **values,
        )
    else:
        b.request(
            "The {room} in {city} is closed on {day}. Please take care of all that our room policy says.",
            "We cannot use the {room} ({city}) on {day}. The room policy says what to do, please do it all.",
            "{room} in {city} is out of order on {day}, that day only. Handle it by the room policy, please.",
            **values,
        )
        steps.read_documents(b, "room policy")
    b.look("calendar_rooms_list", city=city)
    b.look(
        "calendar_events_list", starts_at_min=f"{day}T00:00:00Z", ends_at_max=f"{day}T23:59:59Z", limit=100
    )
    for event, hour, size, host in zip(meetings, hours, sizes, hosts, strict=False):
        new = _fit([room for room in free_rooms if room["id"] != blocked.get(hour)], size + spare)
        if new:
            b.do("calendar_events_update", id=event["id"], room_id=new["id"])
            text = says(f"{event['title']} is in the {new['name']} now.", new["name"])
        else:
            later = {name: f"{_next(day)}{event[name][10:]}" for name in ("starts_at", "ends_at")}
            b.do("calendar_events_update", id=event["id"], **later)
            text = says(f"{event['title']} had to move to {_next(day)}.", spoken(_next(day)))
        steps.send_message(b, host.email, text)
    if rules:
        b.look("projects_search", query=rules.project["name"])
        steps.create_task(b, rules.project, rules.title, rules.fixer, day)
        news = f"{closed['name']}, {city}: closed on {day}."
        steps.post(b, rules.channel, news, closed["name"], city, spoken(day))


class Rules(NamedTuple):
    project: Record
    channel: Record
    title: str
    fixer: str


def _rules(b: Builder, city: str, closed: Record, spare: int) -> Rules:
    """Add the policy and what it refers to."""
    year, fixer = b.today.year, b.pick(b.staff).email
    project = records.yearly_projects(b, "Facilities")
    channel = b.add("chat.channels", name="facilities", topic="Rooms and desks", members=[fixer])
    b.add("chat.channels", name="facilities-ideas", topic="Wishes", members=[fixer])
    text = (
        "When a room is closed for a day:\n"
        "1. Each meeting in it moves to the smallest room of the same office that is free at its time. Seats "
        "are needed for the attendees, the organizer and {spare} more.\n"
        "2. If there is no such room, the meeting keeps its room and its hour, but takes place on the next "
        "working day.\n"
        "3. Each organizer gets a direct message in the chat with the new room, or the new date.\n"
        f'4. A task in the project Facilities {year}, titled like "Check Blue room, Rome", with the room '
        f"that is closed and its city, goes to {fixer}, due on the day of the closure.\n"
        "5. The channel facilities is told room, city and day."
    )
    revised_policy(b, "Room policy", text, {"spare": spare}, {"spare": spare + 3})
    records.background(b, documents=25, projects=60)
    return Rules(project, channel, f"Check {closed['name']}, {city}", fixer)


def _fit(rooms: list[Record], seats: int) -> Record | None:
    """Return the smallest room with so many seats; rooms are sorted by them."""
    return next((room for room in rooms if room["seats"] >= seats), None)


def _event(
    b: Builder, room: Record, title: str, day: str, hour: int, size: int, organizer: Person, **values: str
) -> Record:
    """Add a meeting of so many people, the organizer included."""
    guests, start = [person for person in b.staff if person != organizer], f"{day}T{hour:02d}:00:00Z"
    minutes, invited = b.pick((30, 45, 50)), b.sample(guests, size - 1)
    return records.event(b, title, start, minutes, organizer, *invited, room_id=room["id"], **values)


def _next(day: str) -> str:
    return times.workday(times.day_after(day, 1))
