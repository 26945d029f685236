"""Calendar: events, answers to invitations, rooms, free and busy times."""

from typing import Any

from mcp_bench.servers.saasworld.engine.api_error import ApiError, invalid
from mcp_bench.servers.saasworld.engine.app import App
from mcp_bench.servers.saasworld.engine.fields import (
    choice,
    email,
    emails,
    ident,
    integer,
    moment,
    prose,
    ref,
    text,
)
from mcp_bench.servers.saasworld.engine.operation import Arguments
from mcp_bench.servers.saasworld.engine.resource import Resource
from mcp_bench.servers.saasworld.engine.seeder import Seeder
from mcp_bench.servers.saasworld.engine.state import Record, State


def check_event(state: State, record: Record, before: Record | None) -> Record:
    """Refuse an event that ends before it starts, or whose room is taken."""
    if record["ends_at"] <= record["starts_at"]:
        raise invalid("ends_at", "ends_at must be after starts_at.")
    if room := record.get("room_id"):
        for other in state.rows("calendar.events"):
            same_room = other.get("room_id") == room and other["id"] != record["id"] and live(other)
            if same_room and overlap(other, record["starts_at"], record["ends_at"]):
                raise ApiError("conflict", "The room is taken at that time.", "room_id")
    return record


def live(event: Record) -> bool:
    return bool(event.get("status") != "cancelled")


def overlap(event: Record, start: str, end: str) -> bool:
    return bool(event["starts_at"] < end and start < event["ends_at"])


ROOMS = Resource(
    "calendar",
    "rooms",
    "room",
    "room",
    "Meeting rooms.",
    (
        text("name", "Name of the room."),
        integer("seats", "How many people fit in."),
        text("city", "Office it is in.", filter=True),
    ),
    ("list", "get"),
)
EVENTS = Resource(
    "calendar",
    "events",
    "event",
    "evt",
    "Meetings in the user's calendar.",
    (
        prose("title", "Title.", required=True),
        moment("starts_at", "Start", required=True),
        moment("ends_at", "End", required=True),
        emails("attendees", "Addresses of those invited.", filter=True, key=True),
        email("organizer", "Who invited.", readonly=True, auto="me"),
        ref("room_id", "calendar.rooms", "Room it takes place in."),
        prose("description", "Agenda or notes."),
        choice("status", "State of the event.", "confirmed", "cancelled", readonly=True, default="confirmed"),
        choice(
            "my_response", "The user's answer.", "accepted", "declined", "tentative", "none", readonly=True
        ),
    ),
    ("list", "get", "search", "create", "update"),
    rule=check_event,
)


@EVENTS.action(
    "cancel", "Cancel an event and tell its attendees.", ident("event"), prose("message", "Reason.")
)
def cancel(state: State, args: Arguments) -> dict[str, Any]:
    event = state.need("calendar.events", args["id"])
    if not live(event):
        raise ApiError("conflict", "The event is cancelled already.")
    if event["organizer"] != state.settings["me"]["email"]:
        raise ApiError("permission_denied", "Only the organizer can cancel an event; you can decline it.")
    return state.update("calendar.events", event, status="cancelled")


@EVENTS.action(
    "respond",
    "Answer an invitation.",
    ident("event"),
    choice("response", "The answer.", "accepted", "declined", "tentative", required=True),
)
def respond(state: State, args: Arguments) -> dict[str, Any]:
    event = state.need("calendar.events", args["id"])
    if not live(event):
        raise ApiError("conflict", "The event is cancelled.")
    return state.update("calendar.events", event, my_response=args["response"])


@EVENTS.action(
    "busy",
    "List when people are busy between two times.",
    emails("attendees", "Addresses of the people.", required=True),
    moment("start", "From", required=True),
    moment("end", "To", required=True),
    method="GET",
    path="/events/busy",
)
def busy(state: State, args: Arguments) -> dict[str, Any]:
    found = []
    for event in state.rows("calendar.events"):
        people = {*event.get("attendees", []), event["organizer"]}
        if live(event) and overlap(event, args["start"], args["end"]):
            found += [
                {"email": address, "starts_at": event["starts_at"], "ends_at": event["ends_at"]}
                for address in args["attendees"]
                if address in people
            ]
    return {"busy": sorted(found, key=lambda row: (row["email"], row["starts_at"]))}


def populate(s: Seeder, count: int) -> None:
    if not s.state.tables.get("calendar.rooms"):
        for name in s.sample(s.words.streets, 6):
            s.add("calendar.rooms", name=f"{name} room", seats=s.integer(4, 20), city=s.city())
    for _ in range(count):
        day, hour = s.day(-20, 40), s.integer(8, 17)
        organizer, *attendees = [person.email for person in s.sample([s.me, *s.staff], 4)]
        s.add(
            "calendar.events",
            title=s.pick(
                ("Weekly sync", "1:1", "Pipeline review", "Budget check", "Interview", "Planning", "Retro")
            ),
            starts_at=f"{day}T{hour:02d}:00:00Z",
            ends_at=f"{day}T{hour:02d}:{s.pick(('30', '45', '50'))}:00Z",
            attendees=attendees,
            organizer=organizer,
            my_response=s.pick(("accepted", "none", "tentative")),
        )


APP = App("calendar", "Meetings and rooms.", (EVENTS, ROOMS), populate, (cancel, respond, busy))
