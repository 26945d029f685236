"""The planned interview of a colleague is at another time, of another kind, or led by somebody else."""

from mcp_bench.servers.saasworld.authoring import Builder, Person, Record, family, records, steps


@family(levels=(1,))
def interview_change(b: Builder) -> None:
    leader, other, kind, new = b.person(b.org), b.pick(b.staff), *b.sample(("phone", "technical", "panel"), 2)
    state = {"location": b.city(), "status": "open", "headcount": 2}
    job = records.job(b, "Night Porter", "Operations", b.pick(b.staff), **state)
    interview = _interview(b, job, leader, starts_at=b.moment(2, 20), kind=kind, status="planned")
    _interview(b, job, leader, starts_at=b.moment(-20, -2), kind=new, status="held")
    b.background("hiring", 20)
    day, clock = b.day(21, 40), f"{b.integer(8, 17):02d}:{b.pick(('00', '15', '30', '45'))}"
    field, value, said = b.pick(
        (
            ("starts_at", f"{day}T{clock}:00Z", f"it starts on {day} at {clock} UTC"),
            ("kind", new, f"it is a {new} interview, not a {kind} one"),
            ("interviewer_email", other.email, f"{other.email} leads it instead"),
        )
    )
    b.request(
        "{leader} has one interview planned. Please change it: {said}.",
        "Can you change the interview that is planned with {leader}? From now on {said}.",
        "The planned interview of {leader}: {said}. Please put that in.",
        "There is a change to the interview that {leader} is going to lead, {said}. Would you enter it?",
        leader=leader.email,
        said=said,
    )
    steps.find(b, "hiring_interviews_list", interviewer_email=leader.email, status="planned")
    b.do("hiring_interviews_update", id=interview["id"], **{field: value})


def _interview(b: Builder, job: Record, leader: Person, **values: str) -> Record:
    about = {"source": b.pick(("website", "agency")), "rating": b.integer(2, 5)}
    candidate = records.candidate(b, job, b.person(), "interview", **about)
    who = {"candidate_id": candidate["id"], "interviewer_email": leader.email}
    return b.add("hiring.interviews", **who, **values)
