"""Somebody applies for a job and is entered."""

from mcp_bench.servers.saasworld.authoring import DEPARTMENTS, Builder, family, records, steps

ROLES = ("Payroll Clerk", "Field Engineer", "Event Planner", "Translator", "Warehouse Lead", "Chemist")
SOURCES = (
    ("website", "through our website"),
    ("referral", "by referral"),
    ("agency", "through an agency"),
    ("event", "at an event"),
)


@family(levels=(1,))
def new_applicant(b: Builder) -> None:
    role, person = b.pick(ROLES), b.person()
    state = {"location": b.city(), "status": "open", "headcount": b.integer(1, 3)}
    records.job(b, role, b.pick(DEPARTMENTS), b.pick(b.staff), **state)
    b.background("hiring", 20)
    source, came = b.pick(SOURCES)
    phone = b.phone() if b.chance(0.5) else ""
    b.request(
        "{name} has applied for the job {role}, {came}. Please add the candidate: {contact}.",
        "New candidate for {role}: {name}, {contact}, came {came}. Can you enter them?",
        "Please put in an application for our job {role}. It reached us {came}: {name}, {contact}.",
        "{came}, we got an application for {role} from {name} ({contact}). Please add it.",
        name=person.name,
        role=role,
        came=came,
        contact=f"{person.email}, phone {phone}" if phone else person.email,
    )
    job = steps.find(b, "hiring_jobs_search", query=role)
    who = {"name": person.name, "email": person.email, **({"phone": phone} if phone else {})}
    b.do("hiring_candidates_create", job_id=job["id"], source=source, **who)
