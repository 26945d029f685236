"""A task gets a comment that tells the others how it is going."""

from mcp_bench.servers.saasworld.authoring import Builder, family, records, steps
from mcp_bench.servers.saasworld.authoring.wording import says, spoken

TITLES = ("Rent a van", "Order chairs", "Hire a cook", "Move the server", "Fix the roof", "Clear the shed")


@family(levels=(1,))
def task_comment(b: Builder) -> None:
    title, person, helper = f"{b.pick(TITLES)} ({b.city()})", b.person(b.org), b.pick(b.staff)
    name, day, hours = f"{b.project()} {b.city()}", b.day(2, 30), b.integer(3, 29)
    state = {"status": "active", "owner_email": b.pick(b.staff).email, "due_date": b.day(40, 90)}
    project = b.add("projects.projects", name=name, **state)
    records.task(b, project, title, person, status=b.pick(("todo", "in_progress")), due_date=b.day(2, 39))
    b.background("projects", 18)
    text, mention = b.pick(
        (
            (f"The supplier delivers on {day}.", spoken(day)),
            (f"It takes {hours} more hours.", (str(hours),)),
            (f"{helper.name} helps out.", (helper.name,)),
            (f"The price has gone up by {hours} percent.", (str(hours),)),
        )
    )
    tool, by, it = b.pick(
        (
            ("projects_tasks_search", {"query": title}, f'the task "{title}"'),
            ("projects_tasks_list", {"assignee_email": person.email}, f"the only task of {person.email}"),
        )
    )
    b.request(
        'Please comment on {it}: "{text}"',
        'Can you leave a comment on {it}? It should say: "{text}"',
        '"{text}" - please put that as a comment on {it}.',
        'Everybody should see this on {it}, so add it as a comment: "{text}"',
        it=it,
        text=text,
    )
    task = steps.find(b, tool, **by)
    b.do("projects_comments_create", task_id=task["id"], body=says(text, mention))
