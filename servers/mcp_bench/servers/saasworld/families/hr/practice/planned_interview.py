"""A candidate is invited to an interview with a colleague."""

from mcp_bench.servers.saasworld.authoring import Builder, family, records, steps

KINDS = {"phone": "a phone interview", "technical": "a technical interview", "panel": "a panel interview"}


@family(levels=(1,))
def planned_interview(b: Builder) -> None:
    person, leader = b.person(), b.pick(b.staff)
    state = {"location": b.city(), "status": "open", "headcount": 2}
    job = records.job(b, "Night Porter", "Operations", b.pick(b.staff), **state)
    about = {"source": b.pick(("website", "agency")), "rating": b.integer(2, 5)}
    records.candidate(b, job, person, b.pick(("screening", "interview")), **about)
    b.background("hiring", 20)
    kind, day = b.pick(tuple(KINDS)), b.day(2, 25)
    clock = f"{b.integer(8, 17):02d}:{b.pick(('00', '15', '30', '45'))}"
    tool, by, whom = b.pick(
        (
            ("hiring_candidates_search", {"query": person.name}, person.name),
            ("hiring_candidates_list", {"email": person.email}, person.email),
        )
    )
    b.request(
        "Please plan {kind} with the candidate {who} on {day} at {clock} UTC. {leader} leads it.",
        "{leader} will see our candidate {who}: {kind}, {day}, {clock} UTC. Can you enter it?",
        "Please put down {kind} for {who}, who applied with us. When: {day}, {clock} UTC. With: {leader}.",
        "On {day} at {clock} UTC there is {kind} with the candidate {who}, led by {leader}. Plan it, please.",
        kind=KINDS[kind],
        who=whom,
        day=day,
        clock=clock,
        leader=leader.email,
    )
    candidate = steps.find(b, tool, **by)
    when = {"interviewer_email": leader.email, "starts_at": f"{day}T{clock}:00Z", "kind": kind}
    b.do("hiring_interviews_create", candidate_id=candidate["id"], **when)
