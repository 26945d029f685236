"""A project gets another name, owner, day or state."""

from mcp_bench.servers.saasworld.authoring import Builder, family
from mcp_bench.servers.saasworld.authoring.finding import find


@family(levels=(1,))
def project_change(b: Builder) -> None:
    name, other = (f"{word} {b.city()}" for word in b.sample(b.words.projects, 2))
    old, owner = b.sample(b.staff, 2)
    status, new = b.pick((("active", "on_hold"), ("planned", "active"), ("on_hold", "active")))
    due = {"due_date": b.day(10, 60), "owner_email": old.email, "status": status}
    project = b.add("projects.projects", name=name, **due)
    b.background("projects", 18)
    day = b.day(70, 200)
    field, value, said = b.pick(
        (
            ("name", other, f"is called {other} from now on"),
            ("owner_email", owner.email, f"is in the hands of {owner.email} now"),
            ("due_date", day, f"has to be done by {day} now"),
            ("status", new, "is on hold" if new == "on_hold" else "is active now"),
        )
    )
    b.request(
        "The project {name} {said}. Please change that.",
        'Can you update a project for me? "{name}" {said}.',
        "Please put it in: our project {name} {said}.",
        "As agreed this morning, the project {name} {said}. Could you enter that?",
        name=name,
        said=said,
    )
    find(b, "projects_search", query=name)
    b.do("projects_update", id=project["id"], **{field: value})
