"""Hiring: jobs, candidates, interviews."""

from typing import Any

from mcp_bench.servers.saasworld.engine.api_error import ApiError
from mcp_bench.servers.saasworld.engine.app import App
from mcp_bench.servers.saasworld.engine.fields import (
    choice,
    date,
    email,
    ident,
    integer,
    moment,
    prose,
    ref,
    text,
)
from mcp_bench.servers.saasworld.engine.operation import Arguments
from mcp_bench.servers.saasworld.engine.resource import Resource
from mcp_bench.servers.saasworld.engine.seeder import DEPARTMENTS, Seeder
from mcp_bench.servers.saasworld.engine.state import Record, State

STAGES = ("applied", "screening", "interview", "offer", "hired")

JOBS = Resource(
    "hiring",
    "jobs",
    "job",
    "job",
    "Open and past positions.",
    (
        text("title", "Title.", required=True),
        choice("department", "Department.", *DEPARTMENTS, required=True),
        text("location", "City.", filter=True),
        choice("status", "State.", "open", "on_hold", "closed", default="open"),
        email("manager_email", "Hiring manager."),
        integer("headcount", "How many to hire.", default=1),
    ),
    ("list", "get", "search", "create", "update"),
)
CANDIDATES = Resource(
    "hiring",
    "candidates",
    "candidate",
    "cnd",
    "People who applied.",
    (
        ref("job_id", "hiring.jobs", "Job they applied for.", required=True),
        text("name", "Full name.", required=True),
        email("email", "Private address.", required=True, key=True),
        text("phone", "Phone number."),
        choice("stage", "Stage.", *STAGES, "rejected", readonly=True, default="applied"),
        choice("source", "Where they came from.", "website", "referral", "agency", "event"),
        integer("rating", "Rating by the interviewers.", least=1, most=5),
        date("start_date", "Agreed first day"),
        prose("notes", "Free notes."),
    ),
    ("list", "get", "search", "create", "update"),
)
INTERVIEWS = Resource(
    "hiring",
    "interviews",
    "interview",
    "itv",
    "Planned and past interviews.",
    (
        ref("candidate_id", "hiring.candidates", "Candidate.", required=True),
        email("interviewer_email", "Colleague who leads it.", required=True, key=True),
        moment("starts_at", "Start", required=True),
        choice("kind", "Kind of interview.", "phone", "technical", "panel", default="phone"),
        choice("status", "State.", "planned", "held", "cancelled", readonly=True, default="planned"),
        prose("feedback", "What the interviewer says.", detail=True),
    ),
    ("list", "get", "create", "update"),
)


def _live(state: State, candidate_id: str) -> Record:
    candidate = state.need("hiring.candidates", candidate_id)
    if candidate["stage"] in ("hired", "rejected"):
        raise ApiError("conflict", f"The candidate is {candidate['stage']}.")
    return candidate


@CANDIDATES.action(
    "advance",
    "Move a candidate to a later stage.",
    ident("candidate"),
    choice("stage", "Stage to move to.", *STAGES[1:], required=True),
)
def advance(state: State, args: Arguments) -> dict[str, Any]:
    candidate = _live(state, args["id"])
    if STAGES.index(args["stage"]) <= STAGES.index(candidate["stage"]):
        raise ApiError("conflict", f"The candidate is at {candidate['stage']} already.", "stage")
    return state.update("hiring.candidates", candidate, stage=args["stage"])


@CANDIDATES.action(
    "reject", "Turn a candidate down.", ident("candidate"), prose("reason", "Internal reason.")
)
def reject(state: State, args: Arguments) -> dict[str, Any]:
    return state.update("hiring.candidates", _live(state, args["id"]), stage="rejected")


@INTERVIEWS.action("cancel", "Cancel a planned interview.", ident("interview"))
def cancel(state: State, args: Arguments) -> dict[str, Any]:
    interview = state.need("hiring.interviews", args["id"])
    if interview["status"] != "planned":
        raise ApiError("conflict", f"The interview is {interview['status']}.")
    return state.update("hiring.interviews", interview, status="cancelled")


ROLES = (
    "Account Executive",
    "Data Analyst",
    "Support Agent",
    "Bookkeeper",
    "Recruiter",
    "Content Writer",
    "Buyer",
)


def populate(s: Seeder, count: int) -> None:
    for _ in range(max(1, count // 10)):
        job = s.add(
            "hiring.jobs",
            title=s.pick(ROLES),
            department=s.pick(DEPARTMENTS),
            location=s.city(),
            status=s.pick(("open", "open", "on_hold", "closed")),
            manager_email=s.pick(s.staff).email,
            headcount=s.integer(1, 3),
        )
        for _ in range(7):
            person = s.person()
            candidate = s.add(
                "hiring.candidates",
                job_id=job["id"],
                name=person.name,
                email=person.email,
                stage=s.pick((*STAGES[:4], "rejected")),
                source=s.pick(("website", "referral", "agency", "event")),
                rating=s.integer(1, 5),
            )
            if s.chance(0.3):
                s.add(
                    "hiring.interviews",
                    candidate_id=candidate["id"],
                    interviewer_email=s.pick(s.staff).email,
                    starts_at=s.moment(-20, 20),
                    kind=s.pick(("phone", "technical", "panel")),
                    status=s.pick(("planned", "held")),
                )


APP = App(
    "hiring", "Jobs and candidates.", (JOBS, CANDIDATES, INTERVIEWS), populate, (advance, reject, cancel)
)
