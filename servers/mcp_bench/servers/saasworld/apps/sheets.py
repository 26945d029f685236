"""Sheets: spreadsheets and their rows."""

from mcp_bench.servers.saasworld.engine.api_error import echo, invalid
from mcp_bench.servers.saasworld.engine.app import App
from mcp_bench.servers.saasworld.engine.fields import cells, email, ref, text, texts
from mcp_bench.servers.saasworld.engine.resource import Resource
from mcp_bench.servers.saasworld.engine.seeder import Seeder
from mcp_bench.servers.saasworld.engine.state import Record, State

SPREADSHEETS = Resource(
    "sheets",
    "spreadsheets",
    "spreadsheet",
    "sht",
    "Spreadsheets and the names of their columns.",
    (
        text("name", "Name of the spreadsheet.", required=True),
        texts("columns", "Names of the columns."),
        email("owner_email", "Colleague who owns it."),
    ),
    ("list", "get", "search", "create"),
)


def merge_cells(state: State, record: Record, before: Record | None) -> Record:
    """Keep the cells that an update does not name; refuse columns that the spreadsheet does not have."""
    kept, given = (before or {}).get("values", {}), record.get("values", {})
    sheet = state.find("sheets.spreadsheets", record["spreadsheet_id"]) or {}
    if columns := sheet.get("columns"):
        for name in given:
            if name not in columns and name not in kept:
                known = ", ".join(map(echo, columns))
                raise invalid("values", f"The spreadsheet has no column {echo(name)}. It has: {known}.")
    return {**record, "values": {**kept, **given}}


ROWS = Resource(
    "sheets",
    "rows",
    "row",
    "row",
    "Rows of spreadsheets. An update changes the cells that it names.",
    (
        ref("spreadsheet_id", "sheets.spreadsheets", "Spreadsheet it is in.", required=True),
        text("tab", "Tab of the spreadsheet.", default="Sheet1", filter=True, search=False),
        cells("values", "Cells by column name.", required=True),
    ),
    rule=merge_cells,
)


def populate(s: Seeder, count: int) -> None:
    for kind in ("Budget", "Vendors", "Inventory", "Leads")[: max(1, count // 20)]:
        columns = ["Item", "Owner", "Amount", "Due", "Status"]
        name, owner = f"{kind} {s.today.year} {s.city()}", s.pick(s.staff).email
        sheet = s.add("sheets.spreadsheets", name=name, columns=columns, owner_email=owner)
        for _ in range(max(1, min(count, 20))):
            values = (s.product(), s.pick(s.staff).name, s.amount(50, 9000), s.day(-90, 90))
            row = dict(zip(columns, (*values, s.pick(("open", "done", "late"))), strict=True))
            s.add("sheets.rows", spreadsheet_id=sheet["id"], values=row)


APP = App("sheets", "Spreadsheets.", (SPREADSHEETS, ROWS), populate)
