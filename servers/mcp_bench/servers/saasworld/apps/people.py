"""People: employees and leave."""

from typing import Any

from mcp_bench.servers.saasworld.engine.api_error import ApiError, invalid
from mcp_bench.servers.saasworld.engine.app import App
from mcp_bench.servers.saasworld.engine.fields import choice, date, email, ident, integer, prose, ref, text
from mcp_bench.servers.saasworld.engine.operation import Arguments
from mcp_bench.servers.saasworld.engine.resource import Resource
from mcp_bench.servers.saasworld.engine.seeder import DEPARTMENTS, Seeder
from mcp_bench.servers.saasworld.engine.state import Record, State

EMPLOYEES = Resource(
    "people",
    "employees",
    "employee",
    "emp",
    "Everybody who works here, or did.",
    (
        text("name", "Full name.", required=True),
        email("email", "Work address.", required=True, unique=True, key=True),
        choice("department", "Department.", *DEPARTMENTS, required=True),
        text("title", "Job title."),
        email("manager_email", "Address of the manager."),
        text("location", "City of the office.", filter=True),
        date("start_date", "First day"),
        choice("status", "State.", "upcoming", "active", "on_leave", "left", default="active"),
        integer("leave_days", "Days of vacation that are left this year.", most=365),
        text("phone", "Phone number."),
    ),
    ("list", "get", "search", "create", "update"),
)


def check_dates(state: State, record: Record, before: Record | None) -> Record:
    """Refuse leave that ends before it starts."""
    if record["ends_on"] < record["starts_on"]:
        raise invalid("ends_on", "ends_on must not be before starts_on.")
    return record


LEAVE = Resource(
    "people",
    "leave_requests",
    "leave request",
    "lve",
    "Requests for time off.",
    (
        ref("employee_id", "people.employees", "Who wants leave.", required=True),
        choice("kind", "Kind of leave.", "vacation", "sick", "parental", "unpaid", required=True),
        date("starts_on", "First day off", required=True),
        date("ends_on", "Last day off", required=True),
        integer("days", "Working days.", least=1, most=260, required=True),
        prose("comment", "What the employee wrote."),
        choice("status", "State.", "pending", "approved", "rejected", readonly=True, default="pending"),
        prose("decision_note", "What was said about the decision.", readonly=True),
    ),
    ("list", "get", "create"),
    rule=check_dates,
)


def _pending(state: State, request_id: str) -> Record:
    request = state.need("people.leave_requests", request_id)
    if request["status"] != "pending":
        raise ApiError("conflict", f"The request is {request['status']} already.")
    return request


@LEAVE.action("approve", "Approve leave; vacation is taken off the employee's days.", ident("leave request"))
def approve(state: State, args: Arguments) -> dict[str, Any]:
    request = _pending(state, args["id"])
    if request["kind"] == "vacation":
        employee = state.need("people.employees", request["employee_id"])
        left = employee.get("leave_days", 0) - request["days"]
        if left < 0:
            raise ApiError("conflict", f"Only {employee.get('leave_days', 0)} days of vacation are left.")
        state.update("people.employees", employee, leave_days=left)
    return state.update("people.leave_requests", request, status="approved")


@LEAVE.action(
    "reject",
    "Reject leave and say why.",
    ident("leave request"),
    prose("decision_note", "Why.", required=True),
)
def reject(state: State, args: Arguments) -> dict[str, Any]:
    request = _pending(state, args["id"])
    return state.update(
        "people.leave_requests", request, status="rejected", decision_note=args["decision_note"]
    )


TITLES = ("Associate", "Specialist", "Analyst", "Team Lead", "Coordinator", "Engineer", "Assistant")


def populate(s: Seeder, count: int) -> None:
    known = {row["email"] for row in s.state.rows("people.employees")}
    colleagues = [person for person in s.staff if person.email not in known]
    crowd = [s.person(s.org) for _ in range(max(0, count - len(colleagues)))]
    for person in [*colleagues, *crowd]:
        employee = s.add(
            "people.employees",
            name=person.name,
            email=person.email,
            department=s.pick(DEPARTMENTS),
            title=s.pick(TITLES),
            manager_email=s.pick(s.staff).email,
            location=s.city(),
            start_date=s.day(-3000, -30),
            status=s.pick(("active", "active", "active", "on_leave", "left")),
            leave_days=s.integer(0, 28),
        )
        if s.chance(0.3):
            offset, days = s.integer(-90, 60), s.integer(1, 10)
            s.add(
                "people.leave_requests",
                employee_id=employee["id"],
                kind=s.pick(("vacation", "vacation", "sick", "unpaid")),
                starts_on=s.date(offset),
                ends_on=s.date(offset + days),
                days=days,
                status=s.pick(("pending", "approved", "rejected")),
            )


APP = App("people", "Employees and leave.", (EMPLOYEES, LEAVE), populate, (approve, reject))
