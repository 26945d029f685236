"""All tasks of a project are done, so it is closed."""

from mcp_bench.servers.saasworld.authoring import Builder, Person, Record, family, records, steps

WORK = ("Pack the boxes", "Brief the drivers", "Print the signs", "Call the landlord", "Count the chairs")


@family(levels=(1,))
def finished_project(b: Builder) -> None:
    owner = b.person(b.org)
    name, other = (f"{word} {b.city()}" for word in b.sample(b.words.projects, 2))
    project = _project(b, name, owner, "active", "done")
    _project(b, other, owner, b.pick(("planned", "on_hold")), "todo")
    b.background("projects", 16)
    tool, by, it = b.pick(
        (
            ("projects_search", {"query": name}, f'the project "{name}"'),
            ("projects_search", {"query": name}, f"{name}, the project,"),
            (
                "projects_list",
                {"owner_email": owner.email, "status": "active"},
                f"the active project of {owner.email}",
            ),
        )
    )
    b.request(
        "Please close {it}.",
        "All tasks are done, so {it} can be closed. Would you?",
        "Good news, we are through with {it}. Close it, please.",
        "Can you close {it}? Everything is done there.",
        it=it,
    )
    steps.find(b, tool, **by)
    b.do("projects_close", id=project["id"])


def _project(b: Builder, name: str, owner: Person, status: str, done: str) -> Record:
    whose = {"owner_email": owner.email, "due_date": b.day(-9, 60)}
    project = b.add("projects.projects", name=name, status=status, **whose)
    for title in b.sample(WORK, 3):
        more = {"status": done, "priority": b.pick(("low", "normal", "high")), "due_date": b.day(-30, 20)}
        records.task(b, project, title, b.pick(b.staff), **more)
    return project
