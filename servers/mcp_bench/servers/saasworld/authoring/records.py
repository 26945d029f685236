"""Records as the apps usually hold them, one factory per kind, for task families.

A factory fills in what follows from other records: a name and address from a person, a total from a price.
All other fields are keyword arguments, checked by `Seeder.add`. Factories draw nothing, except those that
say so: what is random about a task is written in its family, in the order in which it is drawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from mcp_bench.servers.saasworld.authoring.builder import Builder
from mcp_bench.servers.saasworld.authoring.times import later
from mcp_bench.servers.saasworld.engine.draw import Company, Person
from mcp_bench.servers.saasworld.engine.seeder import Seeder
from mcp_bench.servers.saasworld.engine.state import Record


def background(b: Builder, **counts: int) -> None:
    """Add ordinary records to several apps, about so many each: `background(b, crm=160, mail=30)`."""
    for app, count in counts.items():
        b.background(app, count)


def customer(s: Seeder, company: Company, currency: str, mailbox: str | None = None, **more: Any) -> Record:
    """Add a company that is billed, with an address for invoices if it has a mailbox for them."""
    address = f"{mailbox}@{company.domain}" if mailbox else None
    return s.add("billing.customers", name=company.name, email=address, currency=currency, **more)


def mailbox(s: Seeder) -> str:
    """Draw the first part of an address for invoices."""
    return s.pick(("accounts", "finance", "invoices"))


def invoice(
    s: Seeder, customer: Record, amount: int, status: str = "open", *, paid: int | None = None, **more: Any
) -> Record:
    """Add an invoice in the customer's currency.

    Args:
        paid: what has been paid of it; by default all of a paid invoice, and nothing of others.
    """
    if paid is None:
        paid = amount if status == "paid" else 0
    owed = {"amount": amount, "currency": customer["currency"], "amount_paid": paid}
    return s.add("billing.invoices", customer_id=customer["id"], status=status, **owed, **more)


def claim(
    s: Seeder,
    person: Person,
    title: str,
    category: str,
    amount: int,
    currency: str,
    day: str,
    receipt: bool,
    status: str,
) -> Record:
    """Add an expense claim.

    Args:
        day: when the money was spent.
    """
    what = {"title": title, "category": category, "amount": amount, "currency": currency}
    proof = {"spent_on": day, "has_receipt": receipt}
    return s.add("expenses.claims", employee_email=person.email, **what, **proof, status=status)


def budget(s: Seeder, department: str, category: str, quarter: str, limit: int, spent: int = 0) -> Record:
    """Add a line of a department's budget, in USD."""
    line = {"department": department, "category": category, "quarter": quarter}
    return s.add("expenses.budgets", limit_usd=limit, spent_usd=spent, **line)


def employee(
    s: Seeder, person: Person, department: str, *, manager: Person | None = None, **more: Any
) -> Record:
    """Add somebody to the people directory."""
    boss = {"manager_email": manager.email} if manager else {}
    who = {"name": person.name, "email": person.email, "department": department}
    return s.add("people.employees", **{**who, **boss, **more})


def colleague(
    s: Seeder,
    person: Person,
    department: str,
    *,
    title: str | None = None,
    manager: Person | None = None,
    location: str | None = None,
    start_date: str | None = None,
    since: tuple[int, int] = (-3000, -100),
    leave: int | tuple[int, int] = (0, 28),
    status: str = "active",
) -> Record:
    """Add an employee with all that the directory usually knows; draw what is not given, in this order.

    Args:
        since: the first day lies between these offsets in days.
        leave: days of vacation that are left, or the least and the most.
    """
    return employee(
        s,
        person,
        department,
        title=title or s.pick(("Specialist", "Analyst", "Assistant", "Engineer")),
        manager=manager or s.pick(s.staff),
        location=location or s.city(),
        start_date=start_date or s.day(*since),
        leave_days=leave if isinstance(leave, int) else s.integer(*leave),
        status=status,
    )


def leave(
    s: Seeder, employee: Record, starts_on: str, ends_on: str, days: int, status: str = "pending"
) -> Record:
    """Add a request for vacation of so many working days."""
    when = {"starts_on": starts_on, "ends_on": ends_on, "days": days}
    return s.add("people.leave_requests", employee_id=employee["id"], kind="vacation", status=status, **when)


def vacation(s: Seeder, employee: Record, start: int, days: int, status: str = "pending") -> Record:
    """Add a request for vacation of so many working days (Monday to Friday) from an offset in days on."""
    offsets = [n for n in range(start, start + 40) if (s.today + timedelta(days=n)).weekday() < 5][:days]
    return leave(s, employee, s.date(offsets[0]), s.date(offsets[-1]), days, status)


def account(s: Seeder, company: Company, status: str = "customer", **more: Any) -> Record:
    """Add a company to the CRM."""
    return s.add("crm.accounts", name=company.name, status=status, **more)


def contact(s: Seeder, person: Person, account: Record | None = None, **more: Any) -> Record:
    """Add a person to the CRM, at an account if there is one."""
    at = {"account_id": account["id"]} if account else {}
    return s.add("crm.contacts", **{"name": person.name, "email": person.email, **at, **more})


def deal(s: Seeder, account: Record, kind: str, year: int, **more: Any) -> Record:
    """Add a deal, named after its account, its kind and a year."""
    name = f"{account['name']} {kind} {year}"
    return s.add("crm.deals", name=name, kind=kind, account_id=account["id"], **more)


def requester(s: Seeder, person: Person, company: str | None = None, **more: Any) -> Record:
    """Add somebody who writes to support, of a company or on their own."""
    return s.add("helpdesk.customers", name=person.name, email=person.email, company=company, **more)


def ticket(s: Seeder, requester: Record, subject: str, **more: Any) -> Record:
    """Add a support ticket."""
    return s.add("helpdesk.tickets", customer_id=requester["id"], subject=subject, **more)


def job(s: Seeder, title: str, department: str, manager: Person, **more: Any) -> Record:
    """Add an open position, or one that is closed."""
    return s.add("hiring.jobs", title=title, department=department, manager_email=manager.email, **more)


def candidate(s: Seeder, job: Record, person: Person, stage: str, **more: Any) -> Record:
    """Add an applicant for a job."""
    who = {"job_id": job["id"], "name": person.name, "email": person.email, "stage": stage}
    return s.add("hiring.candidates", **{**who, **more})


def subscriber(s: Seeder, audience: Record, person: Person, **more: Any) -> Record:
    """Put somebody on a mailing list."""
    return s.add(
        "campaigns.subscribers", name=person.name, email=person.email, audience_id=audience["id"], **more
    )


def order(s: Seeder, person: Person, product: Record, quantity: int, status: str, **more: Any) -> Record:
    """Add an order of a product, at its price."""
    who = {"customer_name": person.name, "customer_email": person.email}
    what = {"product_id": product["id"], "quantity": quantity, "total": quantity * product["price"]}
    return s.add("orders.orders", **who, **what, currency="USD", status=status, **more)


def sku(s: Seeder) -> str:
    """Draw a stock number."""
    return f"SKU-{s.integer(10000, 99999)}"


def address(s: Seeder) -> str:
    """Draw a postal address."""
    return f"{s.integer(1, 240)} {s.pick(s.words.streets)} Street, {s.city()}"


def task(s: Seeder, project: Record, title: str, person: Person | None = None, /, **more: Any) -> Record:
    """Add a task to a project, assigned to a person or to nobody."""
    whose = {"assignee_email": person.email} if person else {}
    return s.add("projects.tasks", project_id=project["id"], title=title, **whose, **more)


def document(s: Seeder, title: str, kind: str, body: str, status: str, owner: Person, **more: Any) -> Record:
    """Add a document."""
    what = {"title": title, "kind": kind, "body": body}
    return s.add("documents.documents", **what, status=status, owner_email=owner.email, **more)


def event(
    s: Seeder, title: str, starts_at: str, minutes: int, organizer: Person, *guests: Person, **more: Any
) -> Record:
    """Add an event to the calendar."""
    who = {"organizer": organizer.email, "attendees": [guest.email for guest in guests]}
    when = {"starts_at": starts_at, "ends_at": later(starts_at, minutes)}
    return s.add("calendar.events", title=title, **{**when, **who, **more})


def project(s: Seeder, name: str, owner: Person | None = None, *, status: str = "active") -> Record:
    """Add a project."""
    whose = {"owner_email": owner.email} if owner else {}
    return s.add("projects.projects", name=name, status=status, **whose)


def yearly_projects(s: Seeder, name: str, owner: Person | None = None) -> Record:
    """Add the projects of that name of this year and of last year (done), and return this year's."""
    this = project(s, f"{name} {s.today.year}", owner)
    project(s, f"{name} {s.today.year - 1}", owner, status="done")
    return this


def channel(s: Seeder, name: str, topic: str, *members: Person, **more: Any) -> Record:
    """Add a channel of the chat."""
    addresses = [person.email for person in members]
    return s.add("chat.channels", name=name, topic=topic, members=addresses, **more)


def sheet(s: Seeder, name: str, columns: Sequence[str], owner: Person | None = None) -> Record:
    """Add a spreadsheet."""
    whose = {"owner_email": owner.email} if owner else {}
    return s.add("sheets.spreadsheets", name=name, columns=list(columns), **whose)


def yearly_sheets(s: Seeder, name: str, columns: Sequence[str]) -> tuple[Record, Record]:
    """Add the spreadsheets of that name of this year and of last year, and return both."""
    year = s.today.year
    return sheet(s, f"{name} {year}", columns), sheet(s, f"{name} {year - 1}", columns)


def row(s: Seeder, sheet: Record, *cells: object, tab: str | None = None) -> Record:
    """Add a row to a spreadsheet: one cell for each of its columns."""
    values = dict(zip(sheet["columns"], cells, strict=True))
    where = {"tab": tab} if tab else {}
    return s.add("sheets.rows", spreadsheet_id=sheet["id"], values=values, **where)


def form(s: Seeder, title: str, questions: Sequence[str], owner: Person | None = None, **more: Any) -> Record:
    """Add a form."""
    whose = {"owner_email": owner.email} if owner else {}
    return s.add("forms.forms", title=title, questions=list(questions), **whose, **more)


def response(s: Seeder, form: Record, person: Person, *answers: object, **more: Any) -> Record:
    """Add a filled-in form: one answer to each of its questions."""
    said = dict(zip(form["questions"], answers, strict=True))
    return s.add("forms.responses", form_id=form["id"], respondent=person.email, answers=said, **more)
