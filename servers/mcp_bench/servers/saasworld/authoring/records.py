"""Records as the apps usually hold them, one factory per kind, for task families.

A factory fills in what follows from other records: a name and address from a person, a total from a price.
All other fields are keyword arguments, checked by `Seeder.add`. Factories draw nothing, except those that
say so: what is random about a task is written in its family, in the order in which it is drawn.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from mcp_bench.servers.saasworld.authoring.builder import Builder
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


def row(s: Seeder, sheet: Record, *cells: object, tab: str | None = None) -> Record:
    """Add a row to a spreadsheet: one cell for each of its columns."""
    values = dict(zip(sheet["columns"], cells, strict=True))
    where = {"tab": tab} if tab else {}
    return s.add("sheets.rows", spreadsheet_id=sheet["id"], values=values, **where)


def response(s: Seeder, form: Record, person: Person, *answers: object, **more: Any) -> Record:
    """Add a filled-in form: one answer to each of its questions."""
    said = dict(zip(form["questions"], answers, strict=True))
    return s.add("forms.responses", form_id=form["id"], respondent=person.email, answers=said, **more)
