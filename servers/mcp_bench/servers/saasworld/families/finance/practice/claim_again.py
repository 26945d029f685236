"""A colleague had the same expense once more: a claim like the former one is entered."""

from mcp_bench.servers.saasworld.authoring import Builder, family, records, steps

KINDS = (
    ("Parking", "travel"),
    ("Guest house", "lodging"),
    ("Lunch with partners", "meals"),
    ("Video software", "software"),
    ("Language course", "training"),
    ("Toner", "equipment"),
)


@family(levels=(1,))
def claim_again(b: Builder) -> None:
    person, (kind, category), currency = b.person(b.org), b.pick(KINDS), b.pick(("USD", "EUR", "GBP"))
    title, amount, day = f"{kind} {b.city()}", b.amount(20, 700, 5), b.day(-20, -1)
    status = b.pick(("approved", "paid"))
    records.claim(b, person, title, category, amount, currency, b.day(-90, -30), True, status)
    other = b.pick((0, amount + b.amount(5, 90, 5)))
    b.background("expenses", 18)
    b.request(
        '{name} has spent the same as for "{title}" again, on {day}{but}. Enter a claim like that one; the '
        "receipt is attached.",
        'Please put in the claim "{title}" of {name} once more, now for {day}{but}, with receipt.',
        'Same expense again: "{title}" by {name}, this time on {day}{but}. Can you enter it, with receipt?',
        'A new claim for {name}, please, just like "{title}", spent on {day}{but}. The receipt is attached.',
        name=person.name,
        title=title,
        day=day,
        but=f" (but {other} {currency})" if other else "",
    )
    found = steps.find(b, "expenses_claims_search", query=title)
    same = {name: found[name] for name in ("employee_email", "title", "category", "amount", "currency")}
    new = {**same, "amount": other or found["amount"], "spent_on": day, "has_receipt": True}
    b.do("expenses_claims_create", **new)
