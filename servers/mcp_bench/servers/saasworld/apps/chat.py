"""Chat: channels, messages with threads, direct messages."""

from typing import Any

from mcp_bench.servers.saasworld.engine.api_error import ApiError
from mcp_bench.servers.saasworld.engine.app import App
from mcp_bench.servers.saasworld.engine.fields import email, emails, flag, ident, moment, prose, ref, text
from mcp_bench.servers.saasworld.engine.operation import Arguments
from mcp_bench.servers.saasworld.engine.resource import Resource, insert
from mcp_bench.servers.saasworld.engine.seeder import Seeder
from mcp_bench.servers.saasworld.engine.state import Record, State

TEXT = prose("text", "Text of the message.", required=True)
SENT = moment("sent_at", "When it was sent", system=True, auto="now")
SENDER = email("sender", "Who wrote it.", auto="me")

CHANNELS = Resource(
    "chat",
    "channels",
    "channel",
    "chn",
    "Rooms for teams and topics.",
    (
        text("name", "Name without #.", required=True, unique=True),
        prose("topic", "What it is for."),
        emails("members", "Addresses of its members."),
        flag("archived", "Whether it is closed.", readonly=True, default=False),
    ),
    ("list", "get", "search", "create", "update"),
)
MESSAGES = Resource(
    "chat",
    "messages",
    "message",
    "cht",
    "Messages in channels.",
    (
        ref("channel_id", "chat.channels", "Channel it is in.", required=True),
        ref("thread_id", "chat.messages", "Message that it answers."),
        SENDER,
        TEXT,
        SENT,
    ),
    ("list", "get", "search"),
)
DMS = Resource(
    "chat",
    "dms",
    "direct message",
    "dm",
    "Messages between the user and one colleague.",
    (email("to", "Address it went to.", key=True), SENDER, TEXT, SENT),
    ("list", "search"),
)


def _open_channel(state: State, channel_id: str, field: str) -> Record:
    channel = state.need("chat.channels", channel_id, field)
    if channel.get("archived"):
        raise ApiError("conflict", "The channel is archived.", field)
    return channel


@MESSAGES.action(
    "post",
    "Write a message in a channel.",
    ref("channel_id", "chat.channels", "Channel to write in.", required=True),
    TEXT,
    path="/messages/post",
)
def post(state: State, args: Arguments) -> dict[str, Any]:
    _open_channel(state, args["channel_id"], "channel_id")
    return insert(state, MESSAGES, **args)


@MESSAGES.action("reply", "Answer a message in its thread.", ident("message"), TEXT)
def reply(state: State, args: Arguments) -> dict[str, Any]:
    message = state.need("chat.messages", args["id"])
    _open_channel(state, message["channel_id"], "id")
    thread = message.get("thread_id", message["id"])
    return insert(state, MESSAGES, channel_id=message["channel_id"], thread_id=thread, text=args["text"])


@DMS.action(
    "send",
    "Write to one colleague directly.",
    email("to", "Address of the colleague.", required=True),
    TEXT,
    path="/dms/send",
)
def send(state: State, args: Arguments) -> dict[str, Any]:
    return insert(state, DMS, **args)


@CHANNELS.action("archive", "Close a channel. Nobody can write in it any more.", ident("channel"))
def archive(state: State, args: Arguments) -> dict[str, Any]:
    channel = _open_channel(state, args["id"], "id")
    return state.update("chat.channels", channel, archived=True)


ROOMS = (
    "general",
    "random",
    "sales",
    "marketing",
    "support",
    "finance",
    "people",
    "operations",
    "announcements",
)
LINES = (
    "Heads up: {city} office is closed on {day}.",
    "Anyone has the slides from {day}?",
    "We just passed {amount} this month!",
    "Standup moves to 10:15 on {day}.",
    "The {city} visit went well, notes to follow.",
    "Who can help with a question about {amount} in the budget?",
)


def populate(s: Seeder, count: int) -> None:
    known = {row["name"]: row for row in s.state.rows("chat.channels")}
    for name in ROOMS:
        if name not in known:
            members = [person.email for person in s.sample(s.staff, 5)]
            known[name] = s.add("chat.channels", name=name, topic=f"All about {name}", members=members)
    rooms = [row["id"] for row in known.values()]
    for _ in range(count):
        line = s.pick(LINES).format(city=s.city(), day=s.day(-20, 10), amount=f"${s.amount(1000, 90000):,}")
        sender, sent = s.pick(s.staff).email, s.moment(-60, -1)
        if s.chance(0.15):
            s.add("chat.dms", to=s.me.email, sender=sender, text=line, sent_at=sent)
        else:
            s.add("chat.messages", channel_id=s.pick(rooms), sender=sender, text=line, sent_at=sent)


APP = App("chat", "Team chat.", (CHANNELS, MESSAGES, DMS), populate, (post, reply, send, archive))
