"""A project gets another name, owner, day or state."""

from mcp_bench.servers.saasworld.authoring import Builder, family, steps


@family(levels=(1,))
def project_change(b: Builder) -> None:
    name, other = (f"{word} {b.city()}" for word in b.sample(b.words.projects, 2))
    old, owner = b.person(b.org), b.pick(b.staff)
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
    tool, by, it = b.pick(
        (
            ("projects_search", {"query": name}, f'the project "{name}"'),
            ("projects_list", {"owner_email": old.email}, f"the project that {old.email} leads"),
        )
    )
    b.request(
        "Please note that {it} {said}. Can you change that?",
        "Can you update a project for me? What is new: {it} {said}.",
        "Please put it in: {it} {said}.",
        "As agreed this morning, {it} {said}. Could you enter that?",
        it=it,
        said=said,
    )
    steps.find(b, tool, **by)
    b.do("projects_update", id=project["id"], **{field: value})
