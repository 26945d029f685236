"""Mail: messages in threads, labels, drafts. Sent messages cannot be taken back."""

from typing import Any

from mcp_bench.servers.saasworld.engine.api_error import echo, invalid
from mcp_bench.servers.saasworld.engine.app import App
from mcp_bench.servers.saasworld.engine.fields import (
    choice,
    email,
    emails,
    flag,
    ident,
    moment,
    prose,
    ref,
    text,
    texts,
)
from mcp_bench.servers.saasworld.engine.operation import Arguments
from mcp_bench.servers.saasworld.engine.resource import Resource, insert
from mcp_bench.servers.saasworld.engine.seeder import Seeder
from mcp_bench.servers.saasworld.engine.state import Record, State

TO = emails("to", "Addresses it goes to.", required=True)
CC = emails("cc", "Addresses in copy.")
SUBJECT = prose("subject", "Subject line.", required=True)
BODY = prose("body", "Text of the mail.", required=True)

MESSAGES = Resource(
    "mail",
    "messages",
    "message",
    "msg",
    "The user's mail, received and sent.",
    (
        text("thread_id", "Thread it belongs to.", key=True, filter=True, search=False, auto="id"),
        choice("folder", "Folder it is in.", "inbox", "sent", "archive", "trash", default="inbox"),
        email("sender", "Address it came from.", auto="me"),
        emails("to", "Addresses it went to.", key=True, filter=True, required=True),
        emails("cc", "Addresses in copy."),
        prose("subject", "Subject line.", required=True),
        prose("body", "Text of the mail.", detail=True, required=True),
        texts("labels", "Names of labels.", filter=True),
        moment("sent_at", "When it was sent", system=True, auto="now"),
    ),
    ("list", "get", "search"),
)
DRAFTS = Resource(
    "mail",
    "drafts",
    "draft",
    "drf",
    "Mails that are written but not sent.",
    (
        emails("to", "Addresses it will go to.", required=True, key=True),
        CC,
        SUBJECT,
        prose("body", "Text of the mail.", required=True, detail=True),
        ref("reply_to_id", "mail.messages", "Message that it answers."),
    ),
    ("list", "get", "create", "update", "delete"),
)
LABELS = Resource(
    "mail",
    "labels",
    "label",
    "lbl",
    "Labels for messages.",
    (text("name", "Name of the label.", required=True, unique=True),),
    ("list", "create"),
)


def deliver(state: State, *, to: list[str], subject: str, body: str, **more: Any) -> Record:
    """Put a message into the user's sent mail."""
    if not to:
        raise invalid("to", "to needs at least one address.")
    return insert(state, MESSAGES, folder="sent", to=to, subject=subject, body=body, **more)


@MESSAGES.action(
    "send", "Send a new mail from the user's address.", TO, CC, SUBJECT, BODY, path="/messages/send"
)
def send(state: State, args: Arguments) -> dict[str, Any]:
    return deliver(state, **args)


@MESSAGES.action(
    "reply",
    "Answer a message in its thread. It goes to the sender, with reply_all to all the others too.",
    ident("message"),
    BODY,
    flag("reply_all", "Answer everybody."),
)
def reply(state: State, args: Arguments) -> dict[str, Any]:
    message = state.need("mail.messages", args["id"])
    me = state.settings["me"]["email"]
    people = [message["sender"], *(message["to"] if args.get("reply_all") else [])]
    to = [address for address in dict.fromkeys(people) if address != me] or message["to"]
    more = {"cc": message["cc"]} if args.get("reply_all") and message.get("cc") else {}
    subject = message["subject"] if message["subject"].startswith("Re: ") else f"Re: {message['subject']}"
    return deliver(state, to=to, subject=subject, body=args["body"], thread_id=message["thread_id"], **more)


@MESSAGES.action(
    "forward", "Send a message on to other people.", ident("message"), TO, prose("body", "Text above it.")
)
def forward(state: State, args: Arguments) -> dict[str, Any]:
    message = state.need("mail.messages", args["id"])
    body = f"{args.get('body', '')}\n\nForwarded from {message['sender']}:\n{message['body']}".lstrip()
    return deliver(
        state, to=args["to"], subject=f"Fwd: {message['subject']}", body=body, thread_id=message["thread_id"]
    )


@MESSAGES.action(
    "move",
    "Move a message to another folder; trash is how mails are deleted.",
    ident("message"),
    choice("folder", "Folder to move it to.", "inbox", "archive", "trash", required=True),
)
def move(state: State, args: Arguments) -> dict[str, Any]:
    return state.update("mail.messages", state.need("mail.messages", args["id"]), folder=args["folder"])


@MESSAGES.action(
    "label",
    "Put labels on a message or take them off.",
    ident("message"),
    texts("add", "Names of labels to put on."),
    texts("remove", "Names of labels to take off."),
)
def label(state: State, args: Arguments) -> dict[str, Any]:
    message = state.need("mail.messages", args["id"])
    known = {row["name"] for row in state.rows("mail.labels")}
    for name in args.get("add", []):
        if name not in known:
            raise invalid("add", f"There is no label {echo(name)}: create it first.")
    kept = [name for name in message.get("labels", []) if name not in args.get("remove", [])]
    return state.update("mail.messages", message, labels=list(dict.fromkeys([*kept, *args.get("add", [])])))


@DRAFTS.action("send", "Send a draft as it is.", ident("draft"))
def send_draft(state: State, args: Arguments) -> dict[str, Any]:
    draft = state.need("mail.drafts", args["id"])
    answered = state.find("mail.messages", draft.get("reply_to_id", ""))
    more = {name: draft[name] for name in ("cc",) if name in draft}
    if answered is not None:
        more["thread_id"] = answered["thread_id"]
    state.remove("mail.drafts", draft["id"])
    return deliver(state, to=draft["to"], subject=draft["subject"], body=draft["body"], **more)


TOPICS = (
    ("Minutes of {day}", "Attached are the minutes of {day}. Shout if I missed something."),
    ("Lunch on {day}?", "Shall we try the new place near {city} station on {day}?"),
    ("Numbers for {city}", "The {city} numbers came in at {amount}. More on {day}."),
    ("Travel to {city}", "Tickets to {city} are booked for {day}; the total was {amount}."),
    (
        "Question about the invoice",
        "Could you tell me when {amount} will be paid? We have {day} in our books.",
    ),
    ("Newsletter {day}", "This week in {city}: five ideas that saved teams {amount}."),
    ("Feedback wanted", "We would love to hear how your visit to {city} went. It takes two minutes."),
)


def inbox(s: Seeder, sender: str, subject: str, body: str, **more: Any) -> Record:
    """Add a mail that the user received."""
    values = {"folder": "inbox", "sent_at": s.moment(-30, -1), **more}
    return s.add("mail.messages", sender=sender, to=[s.me.email], subject=subject, body=body, **values)


def populate(s: Seeder, count: int) -> None:
    if not s.state.tables.get("mail.labels"):
        for name in ("Invoices", "Follow up", "Waiting", "Personal", "Urgent"):
            s.add("mail.labels", name=name)
    for _ in range(count):
        subject, body = s.pick(TOPICS)
        values = {"day": s.day(-30, 10), "city": s.city(), "amount": f"${s.amount(100, 9000):,}"}
        sender = s.pick(s.staff).email if s.chance(0.5) else s.person(s.company()).email
        folder = s.pick(("inbox", "inbox", "archive"))
        inbox(
            s,
            sender,
            subject.format(**values),
            body.format(**values),
            folder=folder,
            sent_at=s.moment(-120, -1),
        )


APP = App(
    "mail",
    "The user's mailbox: email in threads, with folders and labels.",
    (MESSAGES, DRAFTS, LABELS),
    populate,
    (send, reply, forward, move, label, send_draft),
)
