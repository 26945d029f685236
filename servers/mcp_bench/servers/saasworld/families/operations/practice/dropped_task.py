"""A task has become pointless and is deleted."""

from mcp_bench.servers.saasworld.authoring import Builder, family, records, steps

TITLES = (
    "Rent a tent",
    "Order flyers",
    "Hire a photographer",
    "Move the archive",
    "Fix the projector",
    "Compare insurers",
)


@family(levels=(1,))
def dropped_task(b: Builder) -> None:
    title, person = f"{b.pick(TITLES)} ({b.city()})", b.person(b.org)
    name = f"{b.project()} {b.city()}"
    state = {"status": "active", "owner_email": b.pick(b.staff).email, "due_date": b.day(40, 90)}
    project = b.add("projects.projects", name=name, **state)
    more = {"status": b.pick(("todo", "in_progress", "blocked")), "due_date": b.day(2, 39)}
    task = records.task(b, project, title, person, **more)
    b.background("projects", 18)
    tool, by, it = b.pick(
        (
            ("projects_tasks_search", {"query": title}, f'the task "{title}"'),
            ("projects_tasks_list", {"assignee_email": person.email}, f"the only task of {person.email}"),
        )
    )
    b.request(
        "Please delete {it}.",
        "We have decided against it: delete {it}, please.",
        "Can you delete {it}? Nobody needs it any more.",
        "Not needed any more: {it}. Please take it out for good.",
        "Somebody added {it} by mistake. Could you delete it?",
        it=it,
    )
    steps.find(b, tool, **by)
    b.do("projects_tasks_delete", id=task["id"])
