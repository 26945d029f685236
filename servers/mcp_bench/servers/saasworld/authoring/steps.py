"""Parts of a reference solution that many task families share; see `Builder.look` and `Builder.do`."""

from __future__ import annotations

from typing import Any

from mcp_bench.servers.saasworld.authoring.builder import NOTHING_ELSE, Builder
from mcp_bench.servers.saasworld.authoring.times import later
from mcp_bench.servers.saasworld.authoring.wording import (
    Also,
    Flexible,
    Mention,
    also,
    free,
    one_of,
    plain,
    says,
)
from mcp_bench.servers.saasworld.engine.seeder import FamilyError
from mcp_bench.servers.saasworld.engine.state import Record

LINKED = also("account_id", "deal_id", "owner_email")
"""What an activity about a contact can be linked to, or not."""


def find(b: Builder, tool: str, **arguments: object) -> Record:
    """Look for a record and return it as a list shows it.

    Raises:
        FamilyError: not exactly one is found. Another draw has to give the task.
    """
    items: list[Record] = b.look(tool, **arguments)["items"]
    if len(items) != 1:
        raise FamilyError(f"{tool}({arguments}) finds {len(items)} records, not one")
    return items[0]


def read_documents(b: Builder, query: str) -> None:
    """Search the documents and read all that are found: the policy that holds, and those that do not."""
    for item in b.look("documents_search", query=query)["items"]:
        b.look("documents_get", id=item["id"])


def read_document(b: Builder, query: str, document: Record) -> None:
    """Search the documents and read one of them."""
    b.look("documents_search", query=query)
    b.look("documents_get", id=document["id"])


def search_mails(b: Builder, query: str) -> None:
    """Search the mails and read all that are found."""
    for item in b.look("mail_messages_search", query=query)["items"]:
        b.look("mail_messages_get", id=item["id"])


def read_mails(b: Builder, **filters: str) -> list[Record]:
    """List the mails that match and read them all."""
    found = b.look("mail_messages_list", **filters)["items"]
    return [b.look("mail_messages_get", id=item["id"]) for item in found]


def read_mail(b: Builder, query: str, mail: Record) -> None:
    """Search the mails and read one of them."""
    b.look("mail_messages_search", query=query)
    b.look("mail_messages_get", id=mail["id"])


def send_mail(
    b: Builder,
    address: str,
    subject: str,
    text: str | Flexible,
    *mentions: Mention,
    never: tuple[str, ...] = (),
) -> None:
    """Send a mail with any subject, whose text has to mention some things: see `says`."""
    body = _worded(text, mentions, never)
    b.do("mail_messages_send", to=[address], subject=free(subject), body=body)


def reply(
    b: Builder, mail: Record, text: str | Flexible, *mentions: Mention, never: tuple[str, ...] = ()
) -> None:
    """Answer a mail; the answer has to mention some things."""
    b.do("mail_messages_reply", also("thread_id"), id=mail["id"], body=_worded(text, mentions, never))


def send_message(
    b: Builder, address: str, text: str | Flexible, *mentions: Mention, never: tuple[str, ...] = ()
) -> None:
    """Send a direct message in the chat, which has to mention some things."""
    b.do("chat_dms_send", to=address, text=_worded(text, mentions, never))


def post(b: Builder, channel: Record, text: str | Flexible, *mentions: Mention) -> None:
    """Find a chat channel and post a message there, which has to mention some things."""
    b.look("chat_channels_search", query=channel["name"])
    announce(b, channel, text, *mentions)


def announce(
    b: Builder, channel: Record, text: str | Flexible, *mentions: Mention, never: tuple[str, ...] = ()
) -> None:
    """Post a message in a chat channel that was found before; it has to mention some things."""
    b.do("chat_messages_post", channel_id=channel["id"], text=_worded(text, mentions, never))


def read_ticket(b: Builder, ticket: Record) -> None:
    """Find a ticket by its number and read it."""
    b.look("helpdesk_tickets_search", query=ticket["number"])
    b.look("helpdesk_tickets_get", id=ticket["id"])


def comment(
    b: Builder, ticket: Record, text: str | Flexible, *mentions: Mention, public: bool = True
) -> None:
    """Comment on a ticket; the customer sees it if it is public."""
    b.do("helpdesk_comments_create", ticket_id=ticket["id"], public=public, body=_worded(text, mentions))


def answer_ticket(
    b: Builder, ticket: Record, text: str | Flexible, *mentions: Mention, status: str = "solved"
) -> None:
    """Comment on a ticket for the customer and set its status; an internal note is optional."""
    comment(b, ticket, text, *mentions)
    b.do("helpdesk_tickets_update", id=ticket["id"], status=status)
    b.optional("helpdesk.comments", ticket_id=ticket["id"], public=False, body=free(""))


def read_sheet(b: Builder, sheet: Record, query: str = "", **filters: Any) -> None:
    """Find a spreadsheet, by its name or another query, and list its rows."""
    b.look("sheets_spreadsheets_search", query=query or sheet["name"])
    b.look("sheets_rows_list", spreadsheet_id=sheet["id"], **filters)


def add_row(b: Builder, sheet: Record, *cells: object, more: Also = NOTHING_ELSE) -> None:
    """Add a row to a spreadsheet: one cell for each of its columns."""
    values = dict(zip(sheet["columns"], cells, strict=True))
    b.do("sheets_rows_create", more, spreadsheet_id=sheet["id"], values=values)


def number(value: float, *spellings: str) -> Flexible:
    """Return a cell with a number, which a solution can also enter as text."""
    return one_of(value, plain(value), *spellings)


def read_form(b: Builder, form: Record, query: str = "", **filters: Any) -> list[Record]:
    """Find a form, by its title or another query, list its answers and return them."""
    b.look("forms_search", query=query or form["title"])
    answers: list[Record] = b.look("forms_responses_list", form_id=form["id"], **filters)["items"]
    return answers


def read_account(b: Builder, account: Record, *kinds: str, **filters: str) -> None:
    """Find an account by its name and list what belongs to it: `contacts`, `deals`."""
    b.look("crm_accounts_search", query=account["name"])
    for kind in kinds:
        b.look(f"crm_{kind}_list", account_id=account["id"], **filters)


def read_job(b: Builder, job: Record, query: str, **filters: str) -> None:
    """Find a job and list its candidates."""
    b.look("hiring_jobs_search", query=query)
    b.look("hiring_candidates_list", job_id=job["id"], **filters)


def read_project(b: Builder, project: Record, **filters: Any) -> None:
    """Find a project by its name and list its tasks."""
    b.look("projects_search", query=project["name"])
    b.look("projects_tasks_list", project_id=project["id"], **filters)


def create_task(
    b: Builder, project: Record, title: str, assignee: str, due_date: str, more: Also = NOTHING_ELSE
) -> None:
    """Create a task in a project for the colleague with that address."""
    fields = {"title": title, "assignee_email": assignee, "due_date": due_date}
    b.do("projects_tasks_create", more, project_id=project["id"], **fields)


def read_invoices(b: Builder, customer: Record, **filters: str) -> None:
    """Find a company that is billed by its name and list its invoices."""
    b.look("billing_customers_search", query=customer["name"])
    b.look("billing_invoices_list", customer_id=customer["id"], **filters)


def plan_meeting(b: Builder, title: Flexible, starts_at: str, minutes: int, attendees: list[str]) -> None:
    """Plan a meeting, in a room or not."""
    when = {"starts_at": starts_at, "ends_at": later(starts_at, minutes)}
    b.do("calendar_events_create", also("room_id"), title=title, **when, attendees=invited(b, attendees))


def invited(b: Builder, attendees: list[str]) -> Flexible:
    """Accept a meeting's attendees with the user and without: the organizer takes part anyway."""
    others = [address for address in attendees if address != b.me.email]
    return one_of(attendees, [*others, b.me.email] if others == attendees else others)


def plan_activity(
    b: Builder, kind: str, subject: str, contact: Record, due_date: str, more: Also = LINKED, **values: Any
) -> None:
    """Plan a call or a meeting with a contact in the CRM; the subject is free."""
    about = {"kind": kind, "subject": free(subject), "contact_id": contact["id"], "due_date": due_date}
    b.do("crm_activities_create", more, **about, **values)


def _worded(text: str | Flexible, mentions: tuple[Mention, ...], never: tuple[str, ...] = ()) -> Flexible:
    return text if isinstance(text, Flexible) else says(text, *mentions, never=never)
