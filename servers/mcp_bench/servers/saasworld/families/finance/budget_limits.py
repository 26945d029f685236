"""The limit of a department's budget is set, or money moves from one line to another.

Level 2: lines of other quarters, categories and departments, some with the same limit.
"""

from mcp_bench.servers.saasworld.apps.expenses import CATEGORIES
from mcp_bench.servers.saasworld.authoring import DEPARTMENTS, Builder, Record, family, records, times


@family(levels=(1, 2))
def budget_limits(b: Builder) -> None:
    department = b.pick(DEPARTMENTS)
    category, other = b.sample(CATEGORIES, 2)
    # the background has lines of the running quarter: this is about the next one
    quarter = times.quarter(b.today, 1)
    line = _line(b, department, category, quarter, b.amount(4000, 20000, 500))
    values = {"department": department, "category": category, "other": other, "quarter": quarter}
    if b.level == 1:
        b.background("expenses", 20)
        new = b.amount(3000, 30000, 250)
        b.request(
            "Please set the {category} budget of {department} for {quarter} to {new} USD.",
            "{department} gets {new} USD for {category} in {quarter}. Put that into the budgets, please.",
            "New limit of the {category} budget of {department}, {quarter}: {new} USD.",
            "Can you change the {quarter} budget of {department} for {category} to {new} USD?",
            new=new,
            **values,
        )
        b.look("expenses_budgets_list", department=department, quarter=quarter)
        b.do("expenses_budgets_update", id=line["id"], limit_usd=new)
        return
    second = _line(b, department, other, quarter, b.amount(4000, 20000, 500))
    for step in (-3, -1, 2):
        for name in (category, other):
            _line(b, department, name, times.quarter(b.today, step), b.amount(4000, 20000, 500))
    for name in DEPARTMENTS:
        if name != department:
            _line(b, name, b.pick(CATEGORIES), quarter, line["limit_usd"])
    moved = b.amount(500, 3500, 250)
    b.background("expenses", 150)
    b.request(
        "Please move {moved} USD from the {category} budget of {department} to their {other} budget, both "
        "for {quarter}.",
        "{department} wants to spend {moved} USD more on {other} and as much less on {category} in "
        "{quarter}. Can you change both budgets?",
        "Budget transfer in {quarter} for {department}: {moved} USD out of {category}, into {other}, please.",
        moved=moved,
        **values,
    )
    b.look("expenses_budgets_list", department=department, quarter=quarter)
    b.do("expenses_budgets_update", id=line["id"], limit_usd=line["limit_usd"] - moved)
    b.do("expenses_budgets_update", id=second["id"], limit_usd=second["limit_usd"] + moved)


def _line(b: Builder, department: str, category: str, quarter: str, limit: int) -> Record:
    return records.budget(b, department, category, quarter, limit, b.amount(0, 900, 50))
