"""A job is opened that has the department and the manager of another one."""

from mcp_bench.servers.saasworld.authoring import DEPARTMENTS, Builder, family, records, steps

ROLES = ("Payroll Clerk", "Field Engineer", "Event Planner", "Translator", "Warehouse Lead", "Chemist")


@family(levels=(1,))
def similar_job(b: Builder) -> None:
    old, role = b.sample(ROLES, 2)
    here, city = b.sample(b.words.cities, 2)
    state = {"location": here, "status": b.pick(("open", "on_hold", "closed")), "headcount": 1}
    records.job(b, old, b.pick(DEPARTMENTS), b.pick(b.staff), **state)
    b.background("hiring", 20)
    count = b.integer(1, 6)
    b.request(
        "We need {count} x {role} in {city}. Please open a job with the department and the hiring manager of "
        "the {old} job.",
        "Please create a job: {role}, {city}, headcount {count}. Take department and manager from the job "
        "{old}.",
        "New job like that of the {old}, so same department and same manager: {role} in {city}, headcount "
        "{count}. Can you put it in?",
        "Can you open a job for us? It is {role}, {count} to hire, in {city}; department and hiring manager "
        "as in the job {old}.",
        count=count,
        role=role,
        city=city,
        old=old,
    )
    job = steps.find(b, "hiring_jobs_search", query=old)
    same = {name: job[name] for name in ("department", "manager_email")}
    b.do("hiring_jobs_create", title=role, location=city, headcount=count, **same)
