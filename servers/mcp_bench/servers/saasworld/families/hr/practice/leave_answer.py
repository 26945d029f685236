"""Leave that a colleague has asked for is approved, or rejected with a note."""

from datetime import timedelta

from mcp_bench.servers.saasworld.authoring import DEPARTMENTS, Builder, family, records, steps
from mcp_bench.servers.saasworld.authoring.wording import says

REASONS = (("we count the stock", "stock"), ("the trade fair is then", "fair"), ("many are away", "away"))


@family(levels=(1,))
def leave_answer(b: Builder) -> None:
    start, days = b.integer(5, 60), b.integer(1, 5)
    start -= (b.today + timedelta(days=start)).weekday()  # a Monday
    first, last = b.date(start), b.date(start + days - 1)
    employee = records.colleague(b, b.person(b.org), b.pick(DEPARTMENTS), leave=(8, 28))
    what = {"kind": b.pick(("vacation", "unpaid", "parental")), "status": "pending", "days": days}
    leave = {"starts_on": first, "ends_on": last, **what}
    request = b.add("people.leave_requests", employee_id=employee["id"], **leave)
    b.background("people", 24)
    why, word = b.pick(REASONS)
    reject = b.chance(0.5)
    values = {"first": first, "last": last, "kind": what["kind"], "why": why}
    if reject:
        b.request(
            "Please reject the {kind} leave request from {first} to {last} and note that {why}.",
            "There is a leave request from {first} to {last}. Turn it down, because {why}, and say so.",
            "No {kind} leave from {first} to {last}: {why}. Reject the request with this reason, please.",
            "Can you reject the leave that starts on {first} and ends on {last}? The reason is that {why}.",
            **values,
        )
    else:
        b.request(
            "Please approve the {kind} leave request from {first} to {last}.",
            "The leave request from {first} to {last} is fine, approve it please.",
            "Can you approve the leave that starts on {first} and ends on {last}?",
            "Somebody has asked for {kind} leave, first day {first}, last day {last}. Approve it, would you?",
            **values,
        )
    steps.find(b, "people_leave_requests_list", starts_on_min=first, starts_on_max=first, status="pending")
    if reject:
        note = says(f"{why[0].upper()}{why[1:]}.", word)
        b.do("people_leave_requests_reject", id=request["id"], decision_note=note)
    else:
        b.do("people_leave_requests_approve", id=request["id"])
