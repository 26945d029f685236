"""Late tasks get a new date, and the colleagues in charge are asked about them.

Traps: the same task in another project (2), tasks that are done or due today and an assignee who has
left (3), a follow-up policy that treats very late and blocked tasks differently (4).
"""

from mcp_bench.servers.saasworld.authoring import Builder, Person, Record, family, records, steps
from mcp_bench.servers.saasworld.authoring.traps import revised_policy

WORK = (
    "Renew the fire inspection",
    "Replace badge readers",
    "Count the spare parts",
    "Check forklift brakes",
    "Label the new shelves",
    "Renew the cleaning contract",
    "Test the alarm",
    "Repair dock door",
    "Book the pallet pickup",
    "Update the evacuation plan",
    "Measure the cold room",
    "Sort returned crates",
)


@family(levels=(1, 2, 3, 4))
def overdue_tasks(b: Builder) -> None:
    name = f"{b.project()} {b.city()} {b.today.year}"
    project = records.project(b, name, b.me)
    if b.level <= 2:
        _single(b, project)
    else:
        _round(b, project)


def _single(b: Builder, project: Record) -> None:
    now, then = b.sample(b.staff, 2)
    title = f"{b.pick(WORK)} ({b.city()})"
    late = b.day(-20, -2)
    task = records.task(b, project, title, now, due_date=late, status="todo")
    b.background("projects", 14 if b.level == 1 else 160)
    values = {"title": title, "to": then.email, "due": b.day(4, 20), "project": project["name"]}
    if b.level == 1:
        b.request(
            'The task "{title}" is late. Give it to {to}, new due date {due}.',
            'Please hand "{title}" over to {to}; it is due on {due} now.',
            '"{title}" did not get done. New assignee {to}, new date {due}.',
            'Task "{title}": assign it to {to} and move the due date to {due}.',
            **values,
        )
        b.look("projects_tasks_search", query=title)
    else:
        again = f"{project['name'].rsplit(' ', 1)[0]} {b.today.year - 1}"
        for other, status in ((again, "done"), (f"{b.project()} {b.city()} {b.today.year}", "active")):
            made = records.project(b, other, b.pick(b.staff), status=status)
            records.task(b, made, title, now, due_date=late, status="in_progress")
        records.task(b, project, f"{title}, part 2", now)
        b.request(
            'In the project {project}, the task "{title}" goes to {to}, with {due} as the new due date.',
            '"{title}" is late in {project}. Please give it to {to} and set it to {due}. Other projects '
            "have a task like that, leave those.",
            'Could you assign the task "{title}" of {project} to {to}, due {due}?',
            **values,
        )
        steps.read_project(b, project)
    b.do("projects_tasks_update", id=task["id"], assignee_email=then.email, due_date=values["due"])


def _round(b: Builder, project: Record) -> None:
    titles = b.sample(WORK, 10)
    gone, heir, slow, boss, calm, stuck, *mild = b.sample(b.staff, 9)
    weeks = b.integer(2, 4)
    for person, manager, status in (
        (gone, heir, "left"),
        (slow, boss, "active"),
        *((person, boss, "active") for person in (heir, boss, calm, stuck, *mild)),
    ):
        _employee(b, person, manager, status)
    mild = mild[: b.integer(2, 3)] if b.level == 3 else mild[:1]
    late = [(_task(b, project, titles.pop(), person, -7 * weeks + 2, -1), person) for person in mild]
    orphan = _task(b, project, titles.pop(), gone, -7 * weeks + 2, -1)
    _task(b, project, titles.pop(), calm, -60, -20, status="done")
    _task(b, project, titles.pop(), stuck, 0, 0)
    _task(b, project, titles.pop(), calm, 3, 30, status="blocked")
    name = project["name"].rsplit(" ", 1)[0]
    sister = records.project(b, f"{name} {b.today.year + 1}", status="planned")
    _task(b, sister, titles.pop(), calm, -20, -3)
    records.background(b, projects=160, people=90, chat=30)
    if b.level == 3:
        due = b.day(6, 15)
        b.request(
            "Please go through the project {project}: whatever was due before today and is not done "
            "moves to {due}, and the assignee gets a direct message in the chat that names the task. If "
            "an assignee has left the company, their manager takes the task over and gets the message.",
            "Follow-up round for {project}, please. Tasks that are overdue (due before today, not done): "
            "new due date {due} and a chat DM with the title to the person in charge. Tasks of people who "
            "are not with us any more go to their manager, who gets the DM then.",
            "Can you chase the late tasks of {project}? Not done and due before today: set {due} and "
            "write the assignee a direct message, with the title of the task. Where the assignee is gone, "
            "reassign to that person's manager and write to the manager.",
            project=project["name"],
            due=due,
        )
        _look_around(b, project)
        for task, person in late:
            _chase(b, task, person, due_date=due)
        _chase(b, orphan, heir, due_date=due, assignee_email=heir.email)
        return

    very = _task(b, project, titles.pop(), slow, -7 * weeks - 30, -7 * weeks - 3)
    jammed = _task(b, project, titles.pop(), stuck, -40, -8, status="blocked")
    days = b.integer(5, 15)
    channel = records.channel(b, "blockers", "What stops us", b.me)
    records.channel(b, "blockers-archive", "Old", b.me, archived=True)
    text = (
        "A task is late when it was due before today and is not done.\n"
        "1. A late task gets a new due date, {days} days from today, and its assignee a direct message in "
        "the chat that names the task.\n"
        f"2. If it is more than {7 * weeks} days late, its priority becomes high as well, and the direct "
        "message goes to {who} and not to the assignee.\n"
        "3. If the assignee has left the company, the task goes to their manager, who gets the message.\n"
        "4. Late tasks that are blocked stay as they are. They are named in the channel blockers, and "
        "nobody gets a direct message about them."
    )
    old = {"days": days + 7, "who": "the owner of the project"}
    revised_policy(b, "Follow-up policy", text, {"days": days, "who": "the assignee's manager"}, old)
    b.background("documents", 25)
    b.request(
        "Please do the follow-up round for the project {project}, as our follow-up policy says.",
        "{project} has late tasks. Take care of them by the follow-up policy, would you?",
        "Time to chase what is late in {project}. The follow-up policy says how.",
        project=project["name"],
    )
    steps.read_documents(b, "follow-up policy")
    _look_around(b, project)
    due = b.date(days)
    for task, person in late:
        _chase(b, task, person, due_date=due)
    _chase(b, orphan, heir, due_date=due, assignee_email=heir.email)
    b.look("people_employees_search", query=slow.email)
    _chase(b, very, boss, due_date=due, priority="high")
    steps.post(b, channel, f"Blocked and late: {jammed['title']}.", jammed["title"])


def _look_around(b: Builder, project: Record) -> None:
    steps.read_project(b, project, due_date_max=b.date(-1))
    b.look("people_employees_list", status="left", limit=100)


def _chase(b: Builder, task: Record, person: Person, **values: object) -> None:
    b.do("projects_tasks_update", id=task["id"], **values)
    steps.send_message(b, person.email, f"How far is this one? {task['title']}", task["title"])


def _task(
    b: Builder, project: Record, title: str, person: Person, first: int, last: int, *, status: str = ""
) -> Record:
    state = {"status": status or b.pick(("todo", "in_progress")), "priority": b.pick(("low", "normal"))}
    return records.task(b, project, title, person, due_date=b.day(first, last), **state)


def _employee(b: Builder, person: Person, manager: Person, status: str) -> None:
    title = b.pick(("Planner", "Technician", "Team Lead"))
    records.employee(b, person, "Operations", title=title, manager=manager, location=b.city(), status=status)
