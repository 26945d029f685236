"""Something about an employee changes: title, office, department, phone or manager.

Level 2: somebody of the same name works in another city, others have nearly the same name, and a new
manager is given by name only.
"""

from mcp_bench.servers.saasworld.authoring import DEPARTMENTS, Builder, Person, Record, family, records
from mcp_bench.servers.saasworld.authoring.traps import namesake

TITLES = ("Buyer", "Planner", "Clerk", "Controller", "Head of Planning", "Regional Lead", "Senior Buyer")


@family(levels=(1, 2))
def employee_record(b: Builder) -> None:
    person, boss = b.person(b.org), b.person(b.org)
    while person.first in {one.first for one in b.staff}:  # a search also finds managers' addresses
        person = b.person(b.org)
    here, there, moved = b.sample(b.words.cities, 3)
    old_title, title = b.sample(TITLES, 2)
    old_department, department = b.sample(DEPARTMENTS, 2)
    employee = _employee(b, person, here, old_title, old_department)
    field, word, new, said = b.pick(
        (
            ("title", "job title", title, title),
            ("location", "office", moved, moved),
            ("department", "department", department, department),
            ("phone", "phone number", phone := b.phone(), phone),
            ("manager_email", "manager", boss.email, boss.email if b.level == 1 else boss.name),
        )
    )
    b.background("people", 24 if b.level == 1 else 140)
    values = {"name": person.name, "word": word, "new": said, "city": here}

    if b.level == 1:
        b.request(
            "Please change the {word} of {name} to {new}.",
            "{name} has a new {word}: {new}. Can you put it in?",
            "New {word} for {name}: {new}.",
            "The {word} of {name} is {new} now, please update it.",
            **values,
        )
    else:
        twin = Person(person.first, person.last, f"{person.first[0]}.{person.last}@{b.org.domain}".lower())
        _employee(b, twin, there, old_title, old_department)
        for _ in range(3):
            _employee(b, namesake(b, person, b.org), here, old_title, old_department)
        for one in (boss, namesake(b, boss, b.org)):
            _employee(b, one, moved, "Team Lead", department)
        b.request(
            "{name} in {city} has a new {word}: {new}. Please put it in.",
            "Please change the {word} of {name} to {new}, the {name} in {city}.",
            "The {word} of our colleague {name} ({city}) is {new} now. Can you update the record?",
            **values,
        )
    b.look("people_employees_search", query=person.name)
    if b.level == 2 and field == "manager_email":
        b.look("people_employees_search", query=boss.name)
    b.do("people_employees_update", id=employee["id"], **{field: new})


def _employee(b: Builder, person: Person, city: str, title: str, department: str) -> Record:
    return records.colleague(b, person, department, title=title, location=city, since=(-3000, -30))
