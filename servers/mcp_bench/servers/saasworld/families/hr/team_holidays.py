"""A team's requests for vacation are decided together: those that overlap with a teammate's are rejected.

Traps: leave of another team, rejected leave, requests outside the period (2); a manager's
namesake, too few days left, mails only for some (3).
"""

from mcp_bench.servers.saasworld.authoring import DEPARTMENTS, Builder, Person, Record, family, records, steps
from mcp_bench.servers.saasworld.authoring.traps import namesake
from mcp_bench.servers.saasworld.authoring.wording import REFUSAL, free, grants, spoken

NEVER = grants("vacation", "leave", "holiday")


@family(levels=(2, 3))
def team_holidays(b: Builder) -> None:
    lead = b.person(b.org)
    other = namesake(b, lead, b.org)
    team = [b.person(b.org) for _ in range(b.level + 2)]
    for boss in (lead, other):
        _employee(b, boss, b.pick(b.staff), 20)
    rows = [_employee(b, person, lead, b.integer(15, 25)) for person in team]
    outsider = _employee(b, b.person(b.org), other, 20)
    first, slots = b.integer(14, 20), b.sample(range(4), b.level + 1)
    starts = [first + 14 * slot for slot in slots]
    lengths = [b.integer(3, 6) for _ in starts]
    asked = [records.vacation(b, *data) for data in zip(rows[:-1], starts, lengths, strict=True)]
    clash = b.integer(1, 3) if b.level == 2 else 1
    for number, start in enumerate(starts):
        status = "approved" if number < clash else "rejected"
        records.vacation(b, rows[-1], start + b.integer(-2, 2), 4, status)
    records.vacation(b, outsider, starts[-1] + b.integer(-2, 2), 4, "approved")
    records.vacation(b, outsider, starts[0], 4)
    records.vacation(b, b.pick(rows[:-1]), first + 75, 4)
    reasons = ["a colleague is away then" if number < clash else "" for number in range(len(asked))]
    if b.level == 3 and b.chance(0.6):
        rows[len(asked) - 1]["leave_days"] = lengths[-1] - 1
        reasons[-1] = "too few days are left"
    b.background("people", 130)
    since, until = b.date(first - 2), b.date(first + 62)
    values = {"lead": lead.name, "start": since, "end": until}
    if b.level == 2:
        b.request(
            "Please go through the pending vacation requests of {lead}'s team that start between {start} and "
            "{end}. Whatever overlaps with approved leave of somebody else in the team is turned down, the "
            "rest approved.",
            "Can you decide on the open holidays in {lead}'s team, those with a first day from {start} to "
            "{end}? Reject them if a teammate has approved leave at the same time, otherwise approve.",
            "Vacation for the people of {lead}: everything pending that begins from {start} to {end} is "
            "approved, unless a teammate with approved leave is away on one of the days. Then reject it.",
            **values,
        )
    else:
        b.background("mail", 60)
        b.request(
            "Please go through the pending vacation requests of {lead}'s team that start between {start} and "
            "{end}. Approve what you can; turn down what overlaps with approved leave of somebody else in "
            "the team, or is more than the days they have left, and say why. Whoever is turned down also "
            "gets a mail that names their first day.",
            "{lead}'s people are waiting for their holidays. For everything pending from {start} up to {end} "
            "(first day): reject it, with a reason, if a teammate has approved leave at the same time or if "
            "there are too few days left; otherwise approve. Those who get a no also get a mail with the "
            "first day it is about.",
            "Could you clear the open vacation requests in the team of {lead}, those that begin from {start} "
            "to {end}? Nobody may be off together with a teammate whose leave is approved already, and "
            "nobody beyond their remaining days: reject these with a reason and mail the person, first day "
            "included. The rest is approved.",
            **values,
        )
    b.look("people_employees_search", query=lead.name)
    b.look("people_employees_list", manager_email=lead.email)
    period = {"starts_on_min": since, "starts_on_max": until}
    b.look("people_leave_requests_list", status="pending", limit=100, **period)
    b.look("people_leave_requests_list", status="approved", ends_on_min=since, limit=100)
    for request, person, why in zip(asked, team[:-1], reasons, strict=True):
        if not why:
            b.do("people_leave_requests_approve", id=request["id"])
            continue
        b.do("people_leave_requests_reject", id=request["id"], decision_note=free(f"Sorry, {why}."))
        if b.level == 3:
            day = request["starts_on"]
            text = f"Hi {person.first}, your vacation from {day} cannot be approved: {why}."
            steps.send_mail(b, person.email, "Your vacation", text, spoken(day), REFUSAL, never=NEVER)


def _employee(b: Builder, person: Person, boss: Person, leave_days: int) -> Record:
    home = b.pick(DEPARTMENTS)
    return records.colleague(b, person, home, title="Analyst", manager=boss, leave=leave_days)
