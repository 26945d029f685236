"""A task gets another status or priority.

Level 2: the same task is on last year's project, in another city and, for another product, on the list.
"""

from mcp_bench.servers.saasworld.authoring import Builder, Record, family, records, steps

WORK = ("Photograph the", "Set a price for the", "Pack the", "Describe the", "Repair the", "Return the")
CHANGES = (
    ("status", "in_progress", "in progress"),
    ("status", "blocked", "blocked"),
    ("status", "done", "done"),
    ("priority", "low", "low priority"),
    ("priority", "high", "high priority"),
)


@family(levels=(1, 2))
def task_progress(b: Builder) -> None:
    product, work = b.product(), b.pick(WORK)
    title = f"{work} {product}"
    field, new, words = b.pick(CHANGES)
    name, city = b.project(), b.city()
    project = _project(b, f"{name} {city} {b.today.year}")
    task = _task(b, project, title)
    b.background("projects", 20 if b.level == 1 else 160)
    values = {"title": title, "words": words, "project": project["name"]}

    if b.level == 1:
        b.request(
            'Please set the task "{title}" to {words}.',
            '"{title}" is {words} now. Can you change the task?',
            'Task "{title}": {words}. Please put that in.',
            'Could you mark "{title}" as {words}?',
            **values,
        )
        b.look("projects_tasks_search", query=title)
    else:
        elsewhere = b.pick([place for place in b.words.cities if place != city])
        for other in (f"{name} {city} {b.today.year - 1}", f"{name} {elsewhere} {b.today.year}"):
            _task(b, _project(b, other), title)
        for _ in range(3):
            _task(b, project, f"{work} {b.product()}")
        _task(b, project, f"{b.pick([verb for verb in WORK if verb != work])} {product}")
        b.request(
            'Please set "{title}" to {words}, the one in the project {project}.',
            'In {project}, the task "{title}" is {words} now. Can you change it there, and only there?',
            '{project}: mark "{title}" as {words}, please. Other projects have a task like that, too; '
            "leave those.",
            **values,
        )
        steps.read_project(b, project)
    b.do("projects_tasks_update", id=task["id"], **{field: new})


def _project(b: Builder, name: str) -> Record:
    owner, due = b.pick(b.staff).email, b.day(9, 90)
    return b.add("projects.projects", name=name, owner_email=owner, status="active", due_date=due)


def _task(b: Builder, project: Record, title: str) -> Record:
    fresh = {"status": "todo", "priority": "normal"}
    return records.task(b, project, title, b.pick(b.staff), due_date=b.day(-5, 60), **fresh)
