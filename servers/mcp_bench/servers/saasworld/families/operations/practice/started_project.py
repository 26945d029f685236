"""A project is set up for a colleague, whose address is in the directory."""

from mcp_bench.servers.saasworld.authoring import DEPARTMENTS, Builder, family, records, steps

STATES = (
    ("planned", "It is only planned so far"),
    ("active", "It is active from now on"),
    ("on_hold", "It is on hold for the time being"),
)


@family(levels=(1,))
def started_project(b: Builder) -> None:
    owner = b.person(b.org)
    records.colleague(b, owner, b.pick(DEPARTMENTS))
    b.background("people", 18)
    b.background("projects", 16)
    name = f"{b.project()} {b.city()}"
    status, said = b.pick(STATES)
    day = b.day(20, 200)
    b.request(
        'Please set up the project "{name}" for {owner}, to be done by {day}. {said}.',
        '{owner} is in charge of a new project, "{name}", due {day}. {said}. Can you create it?',
        "We start a project called {name}. Owner: {owner}, due date: {day}. {said}. Please enter it.",
        "{said}: a new project of the name {name}, owned by {owner}, that has to be done by {day}. Could "
        "you add it?",
        name=name,
        owner=owner.name,
        day=day,
        said=said,
    )
    found = steps.find(b, "people_employees_search", query=owner.name)
    b.do("projects_create", name=name, owner_email=found["email"], due_date=day, status=status)
