"""A candidate moves to another stage, or is rejected.

Level 2: they applied for two jobs of the same title in different cities, and people of nearly the same
name applied for the same one.
"""

from mcp_bench.servers.saasworld.authoring import Builder, Person, Record, family, records, steps
from mcp_bench.servers.saasworld.authoring.traps import namesake

ROLES = (
    "Product Manager",
    "Payroll Clerk",
    "Field Engineer",
    "Event Planner",
    "Translator",
    "Warehouse Lead",
)
ASKED = {
    "screening": "goes on to screening",
    "interview": "goes on to the interview stage",
    "offer": "gets an offer, so the stage is offer",
    "hired": "has signed, so the stage is hired",
    "rejected": "is not what we need, so reject them",
}


@family(levels=(1, 2))
def candidate_stage(b: Builder) -> None:
    person, role = b.person(), b.pick(ROLES)
    here, elsewhere = b.sample(b.words.cities, 2)
    job = _job(b, role, here)
    stages = tuple(ASKED)
    now = b.integer(-1, 2)
    stage = stages[now] if now >= 0 else "applied"
    new = b.pick(stages[now + 1 :])
    candidate = _candidate(b, job, person, stage)
    b.background("hiring", 20 if b.level == 1 else 160)
    values = {"name": person.name, "asked": ASKED[new], "role": role, "city": here}

    if b.level == 1:
        b.request(
            "{name} {asked}. Please update the candidate.",
            "Candidate {name} {asked}. Please put that in.",
            "Good to know: {name} {asked}. Can you put that in?",
            "Our candidate {name} {asked}. Can you record that?",
            **values,
        )
        b.look("hiring_candidates_search", query=person.name)
    else:
        _candidate(b, _job(b, role, elsewhere), person, stage)
        for _ in range(3):
            _candidate(b, job, namesake(b, person), stage)
        b.request(
            "{name}, who applied as {role} in {city}, {asked}. Please update that.",
            "{role} in {city}: {name} {asked}. Only this application, please.",
            "For the {city} job ({role}), {name} {asked}. Can you put that in? Other applications stay.",
            **values,
        )
        steps.read_job(b, job, f"{role} {here}")
    if new == "rejected":
        b.do("hiring_candidates_reject", id=candidate["id"])
    else:
        b.do("hiring_candidates_advance", id=candidate["id"], stage=new)


def _job(b: Builder, role: str, city: str) -> Record:
    manager, places = b.pick(b.staff), b.integer(1, 3)
    return records.job(b, role, "Operations", manager, location=city, status="open", headcount=places)


def _candidate(b: Builder, job: Record, person: Person, stage: str) -> Record:
    source = b.pick(("website", "referral", "agency", "event"))
    return records.candidate(b, job, person, stage, source=source, rating=b.integer(1, 5))
