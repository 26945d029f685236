"""Somebody is going to work here and is entered, with the address of the manager from the directory."""

from mcp_bench.servers.saasworld.authoring import DEPARTMENTS, Builder, family, records, steps

TITLES = ("Buyer", "Planner", "Clerk", "Controller", "Welder", "Editor", "Nurse")


@family(levels=(1,))
def new_colleague(b: Builder) -> None:
    boss, person, department = b.person(b.org), b.person(b.org), b.pick(DEPARTMENTS)
    records.colleague(b, boss, department, title="Team Lead")
    b.background("people", 20)
    title, day, city = b.pick(TITLES), b.day(10, 80), b.city()
    office = b.chance(0.5)
    b.request(
        "{name} ({email}) joins us on {day} as {title} in {department}{office}. Manager: {boss}. Please "
        "enter them as upcoming.",
        "Please add an employee, status upcoming: {name}, {email}, {title}, department {department}{office}. "
        "First day {day}, reports to {boss}.",
        "New in {department}{office} from {day} on: {name}, {title}, {email}. The manager is {boss}. Can you "
        "put them in? They are upcoming.",
        "Could you enter {name}, {email}, as upcoming? {title} in {department}{office}, first day {day}; "
        "{boss} is the manager.",
        name=person.name,
        email=person.email,
        title=title,
        department=department,
        office=f", office {city}" if office else "",
        day=day,
        boss=boss.name,
    )
    manager = steps.find(b, "people_employees_search", query=boss.name)
    who = {"name": person.name, "email": person.email, "department": department, "title": title}
    more = {"manager_email": manager["email"], **({"location": city} if office else {})}
    b.do("people_employees_create", **who, **more, start_date=day, status="upcoming")
