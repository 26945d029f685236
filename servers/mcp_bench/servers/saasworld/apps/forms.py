"""Forms: questionnaires and their responses."""

from typing import Any

from mcp_bench.servers.saasworld.engine.api_error import ApiError
from mcp_bench.servers.saasworld.engine.app import App
from mcp_bench.servers.saasworld.engine.fields import (
    cells,
    choice,
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
from mcp_bench.servers.saasworld.engine.seeder import Seeder
from mcp_bench.servers.saasworld.engine.state import State

FORMS = Resource(
    "forms",
    "forms",
    "form",
    "frm",
    "Questionnaires.",
    (
        text("title", "Title.", required=True),
        texts("questions", "Questions."),
        choice("status", "Whether it takes answers.", "open", "closed", readonly=True, default="open"),
        email("owner_email", "Colleague who owns it."),
    ),
    ("list", "get", "search", "create", "update"),
)
RESPONSES = Resource(
    "forms",
    "responses",
    "response",
    "rsp",
    "Filled-in forms.",
    (
        ref("form_id", "forms.forms", "Form.", readonly=True),
        email("respondent", "Who filled it in.", readonly=True),
        cells("answers", "Answers by question.", readonly=True),
        choice(
            "status", "What was done about it.", "new", "accepted", "rejected", "processed", default="new"
        ),
        prose("note", "Internal note."),
        moment("submitted_at", "When it came in", system=True, auto="now"),
    ),
    ("list", "get", "search", "update"),
)


@FORMS.action("close", "Close a form: it takes no more answers.", ident("form"))
def close(state: State, args: Arguments) -> dict[str, Any]:
    form = state.need("forms.forms", args["id"])
    if form["status"] == "closed":
        raise ApiError("conflict", "The form is closed already.")
    return state.update("forms.forms", form, status="closed")


@FORMS.action("reopen", "Open a closed form again.", ident("form"))
def reopen(state: State, args: Arguments) -> dict[str, Any]:
    form = state.need("forms.forms", args["id"])
    if form["status"] == "open":
        raise ApiError("conflict", "The form is open.")
    return state.update("forms.forms", form, status="open")


def populate(s: Seeder, count: int) -> None:
    for kind in ("Visitor survey", "Event sign-up", "Equipment request")[: max(1, count // 20)]:
        questions = ["Full name", "City", "Number of people", "Comment"]
        form = s.add(
            "forms.forms", title=f"{kind} {s.city()}", questions=questions, owner_email=s.pick(s.staff).email
        )
        for _ in range(max(1, min(20, count))):
            person = s.person(s.company())
            values = (
                person.name,
                s.city(),
                s.integer(1, 30),
                s.pick(("Thanks", "Please call", "No nuts", "-")),
            )
            s.add(
                "forms.responses",
                form_id=form["id"],
                respondent=person.email,
                answers=dict(zip(questions, values, strict=True)),
                status=s.pick(("new", "accepted", "processed")),
                submitted_at=s.moment(-40, -1),
            )


APP = App("forms", "Forms and answers.", (FORMS, RESPONSES), populate, (close, reopen))
