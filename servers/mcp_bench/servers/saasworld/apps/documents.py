"""Documents: policies, guides and contracts, with versions and shares."""

from typing import Any

from mcp_bench.servers.saasworld.engine.api_error import ApiError
from mcp_bench.servers.saasworld.engine.app import App
from mcp_bench.servers.saasworld.engine.fields import (
    choice,
    date,
    email,
    ident,
    moment,
    prose,
    ref,
    text,
    texts,
)
from mcp_bench.servers.saasworld.engine.operation import Arguments
from mcp_bench.servers.saasworld.engine.resource import Resource
from mcp_bench.servers.saasworld.engine.seeder import DEPARTMENTS, Seeder
from mcp_bench.servers.saasworld.engine.state import State

DOCUMENTS = Resource(
    "documents",
    "documents",
    "document",
    "doc",
    "Policies, guides, contracts and notes. Lists leave out the text: get it one by one.",
    (
        text("title", "Title.", required=True),
        choice("kind", "Kind of document.", "policy", "guide", "contract", "template", "note", required=True),
        prose("body", "Text.", required=True, detail=True),
        choice("status", "State.", "draft", "published", "archived", readonly=True, default="draft"),
        text("version", "Version."),
        date("effective_from", "Day from which it holds"),
        email("owner_email", "Colleague who owns it."),
        texts("tags", "Tags.", filter=True),
    ),
    ("list", "get", "search", "create", "update"),
)
COMMENTS = Resource(
    "documents",
    "comments",
    "comment",
    "dcm",
    "Comments on documents.",
    (
        ref("document_id", "documents.documents", "Document it belongs to.", required=True),
        prose("body", "Text.", required=True),
        email("author", "Who wrote it.", system=True, auto="me"),
        moment("created_at", "When it was written", system=True, auto="now"),
    ),
    ("list", "create"),
)
SHARES = Resource(
    "documents",
    "shares",
    "share",
    "shr",
    "Who may read or edit a document.",
    (
        ref("document_id", "documents.documents", "Document.", required=True),
        email("email", "Who gets access.", required=True, key=True),
        choice("role", "What they may do.", "viewer", "commenter", "editor", required=True),
    ),
    ("list", "create", "delete"),
)


@DOCUMENTS.action("publish", "Publish a draft.", ident("document"))
def publish(state: State, args: Arguments) -> dict[str, Any]:
    document = state.need("documents.documents", args["id"])
    if document["status"] != "draft":
        raise ApiError("conflict", f"The document is {document['status']}, not a draft.")
    return state.update("documents.documents", document, status="published")


@DOCUMENTS.action("archive", "Archive a document: it does not hold any more.", ident("document"))
def archive(state: State, args: Arguments) -> dict[str, Any]:
    document = state.need("documents.documents", args["id"])
    if document["status"] == "archived":
        raise ApiError("conflict", "The document is archived already.")
    return state.update("documents.documents", document, status="archived")


SUBJECTS = (
    ("{dept} handbook", "guide", "How the {dept} team in {city} works. Questions go to the owner."),
    ("Office guide {city}", "guide", "Opening hours in {city} are 8 to 18. The alarm code is at the desk."),
    ("Minutes {dept} {day}", "note", "We met on {day} and went through the {dept} plan for {city}."),
    ("Parking policy {city}", "policy", "Parking in {city} is free for visitors until {day}."),
    ("Template: {dept} report", "template", "Summary, numbers, risks, next steps."),
    ("Supplier contract {city}", "contract", "The supplier delivers to {city} every week until {day}."),
)


def populate(s: Seeder, count: int) -> None:
    for _ in range(count):
        title, kind, body = s.pick(SUBJECTS)
        values = {"dept": s.pick(DEPARTMENTS), "city": s.city(), "day": s.day(-200, 200)}
        s.add(
            "documents.documents",
            title=title.format(**values),
            kind=kind,
            body=body.format(**values),
            status=s.pick(("published", "published", "draft", "archived")),
            version=f"{s.integer(1, 6)}.{s.integer(0, 4)}",
            effective_from=s.day(-900, -30),
            owner_email=s.pick(s.staff).email,
        )


APP = App(
    "documents", "Policies and other documents.", (DOCUMENTS, COMMENTS, SHARES), populate, (publish, archive)
)
