"""An entry is added to a list in a spreadsheet.

Level 2: lists of other years and cities have nearly the same name, and the request does not name the
columns.
"""

from mcp_bench.servers.saasworld.authoring import Builder, Record, family, records, steps
from mcp_bench.servers.saasworld.authoring.wording import also

KINDS = ("Loans", "Samples", "Repairs", "Returns desk", "Show room")
WHO = ("Name", "Person", "Customer")
WHAT = ("Item", "Product", "Article")
PIECES = ("Pieces", "Quantity", "Count")


@family(levels=(1, 2), held_out=True)
def sheet_entry(b: Builder) -> None:
    kind, city, year = b.pick(KINDS), b.city(), b.today.year
    columns = [b.pick(WHO), b.pick(WHAT), b.pick(PIECES), *(("Due",) if b.level == 2 else ())]
    sheet = _sheet(b, f"{kind} {city} {year}", columns)
    person, product, pieces, due = b.person(), b.product(), b.integer(2, 40), b.day(3, 40)
    b.background("sheets", 16 if b.level == 1 else 60)
    values = {"sheet": sheet["name"], "name": person.name, "product": product, "pieces": pieces, "due": due}

    if b.level == 1:
        who, what, count = columns
        b.request(
            'Add a row to the sheet "{sheet}": {who} {name}, {what} {product}, {count} {pieces}.',
            'New row for "{sheet}", please: {who} {name}, {what} {product}, {count} {pieces}.',
            'Please put this into "{sheet}": {who} is {name}, {what} is {product}, {count} is {pieces}.',
            "{who} {name}, {what} {product}, {count} {pieces}: can you add that to {sheet}?",
            who=who,
            what=what,
            count=count,
            **values,
        )
    else:
        elsewhere = b.pick([place for place in b.words.cities if place != city])
        for twin in (
            f"{kind} {city} {year - 1}",
            f"{kind} {elsewhere} {year}",
            f"{kind} {city} {year} closed",
        ):
            _sheet(b, twin, columns)
        b.request(
            'Please add {name} to our list "{sheet}": {pieces} x {product}, due {due}.',
            '{name} gets {pieces} pieces of the {product}, due on {due}. Can you put a row into "{sheet}"?',
            'One row for "{sheet}", with all columns filled: {pieces} x {product} for {name}, due {due}.',
            **values,
        )
    b.look("sheets_spreadsheets_search", query=sheet["name"])
    cells = (person.name, product, steps.number(pieces), due)
    steps.add_row(b, sheet, *cells[: len(columns)], more=also("tab"))


def _sheet(b: Builder, name: str, columns: list[str]) -> Record:
    sheet = records.sheet(b, name, columns, b.pick(b.staff))
    for _ in range(8 if b.level == 1 else 20):
        cells = (b.person().name, b.product(), b.integer(2, 40), b.day(-60, 30))
        records.row(b, sheet, *cells[: len(columns)])
    return sheet
