"""The list of suppliers is kept in order: a detail is corrected, or suppliers listed twice are merged.

Traps: last year's list and companies of nearly the same name (2), tax numbers with and without dashes,
different companies of one name, a detail that only the outdated row has (3).
"""

from mcp_bench.servers.saasworld.authoring import Builder, Record, family, records, steps
from mcp_bench.servers.saasworld.authoring.traps import sister_company

COLUMNS = ["Supplier", "Tax number", "City", "Contact", "Terms", "Status", "Checked"]


@family(levels=(1, 2, 3), held_out=True)
def supplier_register(b: Builder) -> None:
    register = _sheet(b, b.today.year)
    if b.level == 3:
        _merge(b, register)
    else:
        _correct(b, register)


def _correct(b: Builder, register: Record) -> None:
    company = b.company()
    contact = b.person(company).email
    row = _row(b, register, company.name, contact=f"office@{company.domain}", terms="30 days", status="new")
    column, new = b.pick(
        (
            ("Status", b.pick(("blocked", "approved", "on hold"))),
            ("Contact", contact),
            ("Terms", b.pick(("10 days", "45 days", "60 days", "90 days"))),
        )
    )
    values = {"name": company.name, "column": column, "new": new, "sheet": register["name"]}
    if b.level == 1:
        for _ in range(12):
            _row(b, register, b.company().name)
        b.request(
            "In the supplier list, set {column} of {name} to {new}.",
            "{name} in our supplier sheet: {column} is {new} now. Please change it.",
            "Please put {new} as {column} for {name} in the supplier register.",
            "Supplier register, {name}: {column} should be {new}.",
            **values,
        )
        b.look("sheets_rows_search", query=company.name)
    else:
        old = _sheet(b, b.today.year - 1)
        _row(b, old, company.name, contact=row["values"]["Contact"], terms="30 days", status="new")
        for _ in range(2):
            _row(b, register, sister_company(b, company).name)
            _row(b, register, f"{company.name} {b.city()}")
        for _ in range(55):
            _row(b, register, b.company().name)
            _row(b, old, b.company().name)
        b.request(
            'In "{sheet}", set {column} of {name} to {new}. Leave the older lists as they are.',
            "{name}: {column} is {new} from now on. Please correct that in the current list, {sheet}.",
            'Could you change {column} to {new} for {name} (plain {name}, no branch) in "{sheet}"?',
            **values,
        )
        b.look("sheets_spreadsheets_search", query=register["name"])
        b.look("sheets_rows_search", query=company.name)
    b.do("sheets_rows_update", id=row["id"], values={column: new})


def _merge(b: Builder, register: Record) -> None:
    old = _sheet(b, b.today.year - 1)
    outdated: list[Record] = []
    kept: list[Record] = []
    found = ""
    for turn in range(b.integer(3, 4)):
        company, number = b.company(), _tax(b)
        found = found or f"sales@{company.domain}"
        contacts = (found, "") if turn == 0 else (f"old@{company.domain}", f"hello@{company.domain}")
        names = (company.name, b.pick((company.name.upper(), f"{company.name} Ltd")))
        numbers = b.sample((number, number.replace("-", "")), 2)
        for side, (contact, name, tax) in enumerate(zip(contacts, b.sample(names, 2), numbers, strict=True)):
            days = b.day(-300, -160) if side == 0 else b.day(-150, -5)
            row = _row(b, register, name, contact=contact, tax=tax, checked=days)
            (kept if side else outdated).append(row)
        _row(b, old, company.name, tax=number)
    for _ in range(2):
        name = b.company().name
        _row(b, register, name)
        _row(b, register, name)
    for _ in range(60):
        _row(b, register, b.company().name)
        _row(b, old, b.company().name)
    channel = records.channel(b, "suppliers", "News of suppliers", b.me)
    records.channel(b, "suppliers-archive", "Old news", b.me)
    b.background("chat", 60)
    b.request(
        '"{sheet}" lists some suppliers twice, with the same tax number (dashes aside). Please delete the '
        "row that was checked earlier; if the remaining one has no contact, copy it over first. Same name "
        "with another tax number is another company, leave those. Then post in the channel suppliers how "
        "many rows you deleted.",
        "Please clean up {sheet}. Two rows with one tax number, with or without dashes, are the same "
        "supplier: keep the one with the later day under Checked, take over the contact if it has none, "
        "and delete the other. Companies that only share a name stay. The channel suppliers wants to know "
        "the number of rows deleted.",
        "Can you get rid of the doubles in {sheet}? A double has the same tax number, never mind dashes, "
        "no matter how the name is spelled. The row checked last stays, with the contact of the other if "
        "its own is empty. When done tell the channel suppliers how many rows are gone.",
        sheet=register["name"],
    )
    steps.read_sheet(b, register, limit=100)
    b.do("sheets_rows_update", id=kept[0]["id"], values={"Contact": found})
    for row in outdated:
        b.do("sheets_rows_delete", id=row["id"])
    steps.post(b, channel, f"I deleted {len(outdated)} rows that were there twice.", _number(len(outdated)))


def _number(count: int) -> tuple[str, ...]:
    return (str(count), ("one", "two", "three", "four")[count - 1])


def _sheet(b: Builder, year: int) -> Record:
    return records.sheet(b, f"Supplier register {year}", COLUMNS)


def _row(
    b: Builder,
    sheet: Record,
    name: str,
    *,
    contact: str = "",
    terms: str = "",
    status: str = "",
    tax: str = "",
    checked: str = "",
) -> Record:
    values = (
        name,
        tax or _tax(b),
        b.city(),
        contact if contact or tax else b.person().email,
        terms or b.pick(("10 days", "30 days", "60 days")),
        status or b.pick(("approved", "approved", "new", "on hold")),
        checked or b.day(-300, -5),
    )
    return records.row(b, sheet, *values)


def _tax(b: Builder) -> str:
    return f"{b.integer(10, 99)}-{b.integer(1000000, 9999999)}"
