"""A job moves to another city, gets another manager or headcount, or is put on hold."""

from mcp_bench.servers.saasworld.authoring import DEPARTMENTS, Builder, family, records, steps

ROLES = ("Payroll Clerk", "Field Engineer", "Event Planner", "Translator", "Warehouse Lead", "Chemist")


@family(levels=(1,))
def job_change(b: Builder) -> None:
    role, count, more = b.pick(ROLES), b.integer(1, 3), b.integer(4, 9)
    here, city = b.sample(b.words.cities, 2)
    old, boss = b.sample(b.staff, 2)
    status, new = b.pick((("open", "on_hold"), ("on_hold", "open"), ("open", "closed")))
    state = {"location": here, "status": status, "headcount": count}
    job = records.job(b, role, b.pick(DEPARTMENTS), old, **state)
    b.background("hiring", 20)
    state_now = {"on_hold": "is on hold", "open": "is open again", "closed": "is closed now"}[new]
    field, value, said = b.pick(
        (
            ("location", city, f"is in {city}, not in {here}"),
            ("headcount", more, f"has a headcount of {more} now"),
            ("manager_email", boss.email, f"has a new hiring manager, {boss.email}"),
            ("status", new, state_now),
        )
    )
    tool, by, it = b.pick(
        (
            ("hiring_jobs_search", {"query": role}, f"the job {role}"),
            ("hiring_jobs_list", {"location": here}, f"our only job in {here}"),
        )
    )
    b.request(
        "Please update {it}: it {said}.",
        "Can you change {it} in the system? It {said}.",
        "A change for {it}, which {said}. Please put it in.",
        "As you may have heard, {it} {said}. Would you enter that?",
        it=it,
        said=said,
    )
    steps.find(b, tool, **by)
    b.do("hiring_jobs_update", id=job["id"], **{field: value})
