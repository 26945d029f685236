"""A ticket goes to a colleague, or gets another priority or category.

Traps at level 2: it is named by customer and subject only, and people of nearly the same name, a
sister company and the customer's other tickets stand next to it; the colleague is named, not addressed.
"""

from mcp_bench.servers.saasworld.authoring import Builder, Company, Person, Record, family, records
from mcp_bench.servers.saasworld.authoring.traps import namesake, sister_company

SUBJECTS = (
    ("Export stops halfway", "bug"),
    ("Charged for a seat too many", "billing"),
    ("New colleague gets no invitation", "account"),
    ("Where do I find old reports?", "how_to"),
    ("Box arrived open", "shipping"),
)
WORDS = {
    "bug": "a bug",
    "billing": "a billing case",
    "account": "an account case",
    "how_to": "a how-to question",
    "shipping": "a shipping case",
}


@family(levels=(1, 2))
def ticket_routing(b: Builder) -> None:
    company = b.company()
    person, colleague = b.person(company), b.person(b.org)
    subject, category = b.pick(SUBJECTS)
    wrong = b.pick([name for name in WORDS if name != category])
    old, new = b.sample(("low", "normal", "high", "urgent"), 2)
    b.background("helpdesk", 16 if b.level == 1 else 160)
    customer = _customer(b, person, company)
    values = {"category": wrong, "priority": old, "assignee_email": b.pick(b.staff).email}
    ticket = records.ticket(b, customer, subject, **values)
    kind = b.pick(("assign", "priority", "category"))

    if b.level == 1:
        asked = {
            "assign": ("goes to {to}", "Please assign {it} to {to}."),
            "priority": ("has priority {new} now", "Please give {it} the priority {new}."),
            "category": ("is {word}", "Please file {it} in the right category: it is {word}."),
        }[kind]
        b.request(
            asked[1],
            f"{{it}} {asked[0]}, can you change that?",
            f"Helpdesk: {{it}} {asked[0]}.",
            f"{{it}} {asked[0]}. Please fix it in the helpdesk.",
            it=ticket["number"],
            to=colleague.email,
            new=new,
            word=WORDS[category],
        )
        b.look("helpdesk_tickets_search", query=ticket["number"])
    else:
        _look_alikes(b, customer, person, company, {"subject": subject, **values})
        _colleagues(b, colleague)
        what = {
            "assign": f"belongs with {colleague.name}",
            "priority": f"needs the priority {new}",
            "category": f"is filed wrongly, it is {WORDS[category]}",
        }[kind]
        b.request(
            'The open ticket "{subject}" of {name} at {company} {what}. Please change that.',
            '{name} ({company}) has an open ticket called "{subject}". It {what}; can you see to it?',
            'Could you correct one ticket for me? {name} from {company}, "{subject}", the one still open: '
            "it {what}.",
            'Small thing in the helpdesk: "{subject}", opened by {name} of {company} and not solved yet, '
            "{what}.",
            name=person.name,
            company=company.name,
            subject=subject,
            what=what,
        )
        b.look("helpdesk_customers_search", query=person.name)
        b.look("helpdesk_tickets_list", customer_id=customer["id"])
        if kind == "assign":
            b.look("people_employees_search", query=colleague.name)

    if kind == "assign":
        b.do("helpdesk_tickets_assign", id=ticket["id"], assignee_email=colleague.email)
    else:
        change = {"priority": new} if kind == "priority" else {"category": category}
        b.do("helpdesk_tickets_update", id=ticket["id"], **change)


def _customer(b: Builder, person: Person, company: Company) -> Record:
    return records.requester(b, person, company.name, plan=b.pick(("pro", "enterprise")), vip=False)


def _look_alikes(
    b: Builder, customer: Record, person: Person, company: Company, values: dict[str, str]
) -> None:
    """Add other tickets of the customer, and the same ticket of people with similar names."""
    solved = b.moment(-80, -40)
    b.add("helpdesk.tickets", customer_id=customer["id"], created_at=solved, status="solved", **values)
    others = [subject for subject, _ in SUBJECTS if subject != values["subject"]]
    b.add("helpdesk.tickets", **{**values, "customer_id": customer["id"], "subject": b.pick(others)})
    for place in (company, company, sister_company(b, company)):
        twin = _customer(b, namesake(b, person, place), place)
        b.add("helpdesk.tickets", **values, customer_id=twin["id"])


def _colleagues(b: Builder, colleague: Person) -> None:
    for one in (colleague, namesake(b, colleague, b.org), namesake(b, colleague, b.org)):
        records.employee(b, one, "Support", title="Specialist")
    b.background("people", 50)
