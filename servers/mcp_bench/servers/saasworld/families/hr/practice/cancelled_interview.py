"""A planned interview does not take place."""

from mcp_bench.servers.saasworld.authoring import Builder, family, records, steps


@family(levels=(1,))
def cancelled_interview(b: Builder) -> None:
    leader, day, hour = b.person(b.org), b.day(3, 30), b.integer(8, 17)
    state = {"location": b.city(), "status": "open", "headcount": 2}
    job = records.job(b, "Night Porter", "Operations", b.pick(b.staff), **state)
    interviews = []
    for when, status in ((f"{day}T{hour:02d}:00:00Z", "planned"), (b.moment(-20, -2), "held")):
        about = {"source": b.pick(("website", "agency")), "rating": b.integer(2, 5)}
        who = {"candidate_id": records.candidate(b, job, b.person(), "interview", **about)["id"]}
        who |= {"interviewer_email": leader.email, "kind": b.pick(("phone", "technical", "panel"))}
        interviews.append(b.add("hiring.interviews", starts_at=when, status=status, **who))
    b.background("hiring", 20)
    by, it = b.pick(
        (
            (
                {"interviewer_email": leader.email, "status": "planned"},
                f"the interview that is planned with {leader.email}",
            ),
            (
                {"starts_at_min": f"{day}T00:00:00Z", "starts_at_max": f"{day}T23:59:59Z"},
                f"the interview on {day} at {hour:02d}:00 UTC",
            ),
        )
    )
    b.request(
        "Please cancel {it}.",
        "The candidate is ill, so please cancel {it}.",
        "Can you cancel {it}? We will plan it anew later.",
        "We have to call off {it}. Please do that for me.",
        "Something came up: cancel {it}, would you?",
        it=it,
    )
    steps.find(b, "hiring_interviews_list", **by)
    b.do("hiring_interviews_cancel", id=interviews[0]["id"])
