"""Projects: projects, tasks, comments on tasks."""

from typing import Any

from mcp_bench.servers.saasworld.engine.api_error import ApiError
from mcp_bench.servers.saasworld.engine.app import App
from mcp_bench.servers.saasworld.engine.fields import choice, date, email, ident, moment, prose, ref, text
from mcp_bench.servers.saasworld.engine.operation import Arguments
from mcp_bench.servers.saasworld.engine.resource import Resource
from mcp_bench.servers.saasworld.engine.seeder import Seeder
from mcp_bench.servers.saasworld.engine.state import State

PROJECTS = Resource(
    "projects",
    "projects",
    "project",
    "prj",
    "Pieces of work with an owner and a date.",
    (
        text("name", "Name.", required=True),
        email("owner_email", "Colleague in charge."),
        choice("status", "State.", "planned", "active", "on_hold", "done", default="planned"),
        date("due_date", "Day it is to be done by"),
        prose("description", "What it is about."),
    ),
    ("list", "get", "search", "create", "update"),
)
TASKS = Resource(
    "projects",
    "tasks",
    "task",
    "tsk",
    "Tasks of projects.",
    (
        ref("project_id", "projects.projects", "Project it belongs to.", required=True),
        text("title", "Title.", required=True),
        email("assignee_email", "Colleague who does it.", key=True),
        choice("status", "State.", "todo", "in_progress", "blocked", "done", default="todo"),
        choice("priority", "How urgent it is.", "low", "normal", "high", default="normal"),
        date("due_date", "Day it is to be done by"),
        prose("description", "Details.", detail=True),
    ),
    held_by=(("projects.comments", "task_id"),),
)
COMMENTS = Resource(
    "projects",
    "comments",
    "comment",
    "pcm",
    "Comments on tasks.",
    (
        ref("task_id", "projects.tasks", "Task it belongs to.", required=True),
        prose("body", "Text.", required=True),
        email("author", "Who wrote it.", system=True, auto="me"),
        moment("created_at", "When it was written", system=True, auto="now"),
    ),
    ("list", "create"),
)


@PROJECTS.action("close", "Close a project whose tasks are all done.", ident("project"))
def close(state: State, args: Arguments) -> dict[str, Any]:
    project = state.need("projects.projects", args["id"])
    if project["status"] == "done":
        raise ApiError("conflict", "The project is closed already.")
    tasks = [row for row in state.rows("projects.tasks") if row["project_id"] == project["id"]]
    if left := [row for row in tasks if row["status"] != "done"]:
        raise ApiError("conflict", f"{len(left)} tasks are not done.")
    return state.update("projects.projects", project, status="done")


WORK = (
    "Draft the plan",
    "Review budget",
    "Collect feedback",
    "Update the site",
    "Order material",
    "Test with users",
)


def populate(s: Seeder, count: int) -> None:
    for _ in range(max(1, count // 8)):
        project = s.add(
            "projects.projects",
            name=f"{s.project()} {s.city()}",
            owner_email=s.pick(s.staff).email,
            status=s.pick(("planned", "active", "active", "on_hold", "done")),
            due_date=s.day(-30, 180),
        )
        for _ in range(7):
            s.add(
                "projects.tasks",
                project_id=project["id"],
                title=f"{s.pick(WORK)} ({s.city()})",
                assignee_email=s.pick(s.staff).email,
                status=s.pick(("todo", "in_progress", "blocked", "done")),
                priority=s.pick(("low", "normal", "high")),
                due_date=s.day(-20, 90),
            )


APP = App("projects", "Projects and tasks.", (PROJECTS, TASKS, COMMENTS), populate, (close,))
