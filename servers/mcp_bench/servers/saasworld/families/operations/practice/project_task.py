"""A project gets another task, for a colleague, with a day or with a priority."""

from mcp_bench.servers.saasworld.authoring import Builder, family, steps

TITLES = (
    "Rent a van",
    "Order name badges",
    "Check the fire doors",
    "Ask for three offers",
    "Paint the hall",
    "Translate the manual",
    "Book the hotel",
)


@family(levels=(1,))
def project_task(b: Builder) -> None:
    name = f"{b.project()} {b.city()}"
    owner, who = b.sample(b.staff, 2)
    state = {"status": "active", "owner_email": owner.email, "due_date": b.day(40, 90)}
    project = b.add("projects.projects", name=name, **state)
    b.background("projects", 16)
    title, day, level = b.pick(TITLES), b.day(2, 39), b.pick(("low", "high"))
    parts = b.sample(
        (
            ("assignee_email", who.email, f"for {who.email}"),
            ("due_date", day, f"due {day}"),
            ("priority", level, f"with {level} priority"),
        ),
        b.integer(1, 3),
    )
    b.request(
        'Please add the task "{title}" to the project {name}, {parts}.',
        'There is something to do in the project {name}: "{title}", {parts}. Can you make a task of it?',
        'New task, {parts}: "{title}". It belongs to the project {name}.',
        'Could you put a task into the project {name}, {parts}? The title is "{title}".',
        title=title,
        name=name,
        parts=", ".join(said for _, _, said in parts),
    )
    steps.find(b, "projects_search", query=name)
    values = {field: value for field, value, _ in parts}
    b.do("projects_tasks_create", project_id=project["id"], title=title, **values)
