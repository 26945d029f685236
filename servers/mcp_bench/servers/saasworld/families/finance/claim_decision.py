"""One expense claim is approved or turned down.

Level 2: claims by the same colleague and by a namesake that differ in amount, currency or receipt only.
"""

from mcp_bench.servers.saasworld.authoring import Builder, Person, Record, family, records
from mcp_bench.servers.saasworld.authoring.traps import namesake
from mcp_bench.servers.saasworld.authoring.wording import says

KINDS = (
    ("Hotel", "lodging"),
    ("Train ticket", "travel"),
    ("Team dinner", "meals"),
    ("Workshop", "training"),
    ("Headset", "equipment"),
    ("Design software", "software"),
)
REASONS = (
    ("the receipt is missing", "receipt"),
    ("it was private", "private"),
    ("it was paid by company card", "card"),
    ("it exceeds the limit", "limit"),
)
CURRENCIES = ("USD", "EUR", "GBP")


@family(levels=(1, 2))
def claim_decision(b: Builder) -> None:
    person = b.person(b.org)
    kind, category = b.pick(KINDS)
    amount, currency = b.amount(20, 900, 5), b.pick(CURRENCIES)
    reject = b.chance(0.5)
    claim = _claim(b, person, f"{kind} {b.city()}", category, amount, currency, not reject)
    if b.level == 1:
        _one(b, person, claim, reject)
    else:
        _among_others(b, person, claim, reject)


def _one(b: Builder, person: Person, claim: Record, reject: bool) -> None:
    b.background("expenses", 20)
    why, word = b.pick(REASONS)
    values = {"name": person.name, "title": claim["title"], "why": why}
    if reject:
        b.request(
            "Please reject the expense claim of {name}; the note says that {why}.",
            "Turn down the claim of {name}, with the note that {why}.",
            "{name} has put in an expense claim. Reject it and say that {why}.",
            "No money for {name}: {why}. Reject the claim with that note, please.",
            **values,
        )
    else:
        b.request(
            "Please approve the expense claim of {name}.",
            "{name} waits for the money. Approve the expense claim, please.",
            "The expense claim of {name} is fine, approve it.",
            "Can you approve what {name} spent ({title})?",
            **values,
        )
    b.look("expenses_claims_search", query=person.name)
    if reject:
        b.do("expenses_claims_reject", id=claim["id"], decision_note=says(why.capitalize(), f"{word}*"))
    else:
        b.do("expenses_claims_approve", id=claim["id"])


def _among_others(b: Builder, person: Person, claim: Record, reject: bool) -> None:
    title, category, amount = claim["title"], claim["category"], claim["amount"]
    elsewhere = [name for name in CURRENCIES if name != claim["currency"]]
    alike = namesake(b, person, b.org)
    # same title, other amount or currency; all with a receipt, so that only one is without
    _claim(b, person, title, category, amount + b.amount(5, 60, 5), claim["currency"], True)
    _claim(b, person, title, category, amount, b.pick(elsewhere), True)
    _claim(b, person, title, category, amount, claim["currency"], not reject, b.pick(("rejected", "paid")))
    _claim(b, alike, title, category, amount, claim["currency"], not reject)
    kind, other = b.pick([pair for pair in KINDS if pair[1] != category])
    _claim(b, person, f"{kind} {b.city()}", other, amount, claim["currency"], not reject)
    b.background("expenses", 150)
    values = {"name": person.name, "title": title, "amount": amount, "currency": claim["currency"]}
    if reject:
        b.request(
            'Please reject the open claim "{title}" of {name} that has no receipt, and say in the note that '
            "the receipt is missing.",
            '{name} forgot a receipt for "{title}". Turn down the claim that is still open without one, '
            "with a note that the receipt is missing. The other claims stay as they are.",
            'One of the open "{title}" claims by {name} comes without a receipt: reject that one, the note '
            "mentions the receipt.",
            **values,
        )
    else:
        b.request(
            'Please approve the claim "{title}" of {name} of {amount} {currency}, only that one.',
            'I have checked "{title}" by {name}: the one of {amount} {currency} can be approved.',
            '{name} may have {amount} {currency} for "{title}". Approve that claim, leave the others for '
            "now.",
            "{amount} {currency}, {name}, {title}: approve that claim, please.",
            **values,
        )
    b.look("expenses_claims_list", employee_email=person.email, status="submitted")
    if reject:
        note = says("The receipt is missing.", "receipt*")
        b.do("expenses_claims_reject", id=claim["id"], decision_note=note)
    else:
        b.do("expenses_claims_approve", id=claim["id"])


def _claim(
    b: Builder,
    person: Person,
    title: str,
    category: str,
    amount: int,
    currency: str,
    receipt: bool,
    status: str = "submitted",
) -> Record:
    return records.claim(b, person, title, category, amount, currency, b.day(-40, -2), receipt, status)
