"""A spreadsheet with some columns is set up for a colleague from the directory."""

from mcp_bench.servers.saasworld.authoring import DEPARTMENTS, Builder, family, records, steps

COLUMNS = ("Name", "City", "Price", "Phone", "Weight", "Date", "Colour", "Comment")


@family(levels=(1,))
def new_spreadsheet(b: Builder) -> None:
    owner = b.person(b.org)
    records.colleague(b, owner, b.pick(DEPARTMENTS))
    b.background("people", 18)
    b.background("sheets", 8)
    name = f"{b.pick(('Vehicles', 'Tools', 'Visitors', 'Keys', 'Courses'))} {b.city()}"
    columns = b.sample(COLUMNS, b.integer(2, 5))
    b.request(
        'Please set up a spreadsheet "{name}" for {owner}, who owns it, with the columns {columns}.',
        '{owner} needs a new spreadsheet: "{name}", columns {columns}. Can you create it with {owner} as the '
        "owner?",
        'A new spreadsheet, please. Columns: {columns}. Name: "{name}". Owner: {owner}.',
        'Could you make the spreadsheet "{name}"? It has the columns {columns} and belongs to {owner}.',
        name=name,
        owner=owner.name,
        columns=", ".join(columns[:-1]) + f" and {columns[-1]}",
    )
    found = steps.find(b, "people_employees_search", query=owner.name)
    b.do("sheets_spreadsheets_create", name=name, columns=columns, owner_email=found["email"])
