"""CRM: accounts, contacts, deals, activities."""

from mcp_bench.servers.saasworld.engine.app import App
from mcp_bench.servers.saasworld.engine.fields import choice, date, email, flag, number, prose, ref, text
from mcp_bench.servers.saasworld.engine.resource import Resource
from mcp_bench.servers.saasworld.engine.seeder import Seeder

INDUSTRIES = ("retail", "healthcare", "finance", "manufacturing", "education", "technology", "hospitality")
STAGES = ("discovery", "proposal", "negotiation", "won", "lost")
CURRENCIES = ("USD", "EUR", "GBP", "JPY")

ACCOUNTS = Resource(
    "crm",
    "accounts",
    "account",
    "acc",
    "Companies that buy from us, or might.",
    (
        text("name", "Company name.", required=True),
        text("domain", "Mail domain of the company."),
        choice("industry", "Line of business.", *INDUSTRIES),
        choice("status", "Where the relation stands.", "prospect", "customer", "churned", default="prospect"),
        choice("tier", "Service tier.", "standard", "plus", "strategic", default="standard"),
        text("city", "City of the head office.", filter=True),
        email("owner_email", "Colleague who owns the account."),
        number("annual_value", "Yearly revenue with it, in USD."),
        prose("notes", "Free notes."),
    ),
    ("list", "get", "search", "create", "update"),
)
CONTACTS = Resource(
    "crm",
    "contacts",
    "contact",
    "con",
    "People at accounts.",
    (
        text("name", "Full name.", required=True, key=True),
        email("email", "Mail address."),
        text("phone", "Phone number."),
        ref("account_id", "crm.accounts", "Account the person works at."),
        text("title", "Job title."),
        choice("status", "Whether the person still works there.", "active", "left", default="active"),
        flag("is_primary", "First person to write to at the account."),
        prose("notes", "Free notes."),
        date("created_on", "Day it was added", system=True, auto="today"),
    ),
    held_by=(("crm.deals", "contact_id"), ("crm.activities", "contact_id")),
)
DEALS = Resource(
    "crm",
    "deals",
    "deal",
    "deal",
    "Sales opportunities and renewals.",
    (
        text("name", "Name of the deal.", required=True),
        ref("account_id", "crm.accounts", "Account that buys."),
        ref("contact_id", "crm.contacts", "Person we talk to."),
        choice("stage", "Stage of the pipeline.", *STAGES, default="discovery"),
        choice("kind", "Kind of business.", "new", "renewal", "expansion", default="new"),
        number("amount", "Value of the deal."),
        choice("currency", "Currency of the amount.", *CURRENCIES, default="USD"),
        date("close_date", "Expected or actual close"),
        email("owner_email", "Colleague who owns the deal."),
        text("next_step", "What happens next.", search=False),
        prose("notes", "Free notes."),
    ),
    held_by=(("crm.activities", "deal_id"),),
)
ACTIVITIES = Resource(
    "crm",
    "activities",
    "activity",
    "act",
    "Calls, meetings and notes, planned or done.",
    (
        choice("kind", "Kind of activity.", "call", "meeting", "email", "note", required=True),
        prose("subject", "What it is about.", required=True),
        ref("account_id", "crm.accounts", "Account it belongs to."),
        ref("contact_id", "crm.contacts", "Contact it belongs to."),
        ref("deal_id", "crm.deals", "Deal it belongs to."),
        date("due_date", "Day it is planned for"),
        choice("status", "Whether it is done.", "open", "done", default="open"),
        email("owner_email", "Colleague in charge."),
    ),
)
TITLES = ("Head of Purchasing", "Office Manager", "CFO", "IT Director", "Operations Lead", "Founder", "Buyer")


def populate(s: Seeder, count: int) -> None:
    for _ in range(max(1, count // 4)):
        company, owner = s.company(), s.pick(s.staff).email
        account = s.add(
            "crm.accounts",
            name=company.name,
            domain=company.domain,
            industry=s.pick(INDUSTRIES),
            status=s.pick(("prospect", "customer", "customer", "churned")),
            tier=s.pick(("standard", "standard", "plus", "strategic")),
            city=s.city(),
            owner_email=owner,
            annual_value=s.amount(4000, 240000, 500),
        )
        person = s.person(company)
        contact = s.add(
            "crm.contacts",
            name=person.name,
            email=person.email,
            phone=s.phone(),
            account_id=account["id"],
            title=s.pick(TITLES),
            created_on=s.day(-900, -20),
        )
        kind = s.pick(("new", "renewal", "expansion"))
        deal = s.add(
            "crm.deals",
            name=f"{company.name} {kind} {s.today.year}",
            account_id=account["id"],
            contact_id=contact["id"],
            stage=s.pick(STAGES),
            kind=kind,
            amount=s.amount(2000, 90000, 250),
            currency=s.pick(CURRENCIES[:3]),
            close_date=s.day(-60, 120),
            owner_email=owner,
        )
        s.add(
            "crm.activities",
            kind=s.pick(("call", "meeting", "email")),
            subject=s.pick(("Check in", "Demo", "Contract questions", "Feedback on the pilot", "Intro")),
            account_id=account["id"],
            contact_id=contact["id"],
            deal_id=deal["id"],
            due_date=s.day(-40, 20),
            status=s.pick(("open", "done")),
            owner_email=owner,
        )


APP = App("crm", "Customers and the sales pipeline.", (ACCOUNTS, CONTACTS, DEALS, ACTIVITIES), populate)
