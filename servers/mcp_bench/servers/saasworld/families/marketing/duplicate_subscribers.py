"""A mailing list has people on it twice: the right entry stays and takes over data of the other.

Traps: the same address on another list, addresses that differ in case, namesakes (2), opt-outs that
must survive (3), a policy with an outdated version and people who left their company (4).
"""

from mcp_bench.servers.saasworld.authoring import Builder, Person, Record, family, records, steps
from mcp_bench.servers.saasworld.authoring.traps import namesake, revised_policy
from mcp_bench.servers.saasworld.authoring.wording import free, one_of

TAGS = ("webinar", "trial", "partner", "press", "reseller", "beta")
WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven")
LOG = "List hygiene log"


@family(levels=(2, 3, 4))
def duplicate_subscribers(b: Builder) -> None:
    name, elsewhere = b.sample(("Product news", "Customer tips", "Event invitations", "Partner letter"), 2)
    audience = b.add("campaigns.audiences", name=name)
    other = b.add("campaigns.audiences", name=elsewhere)
    people = [b.person(b.company()) for _ in range({2: 1, 3: b.integer(3, 4), 4: 3}[b.level])]
    pairs = []
    for person in people:
        kept, gone = b.sample(TAGS, 2) if person is people[0] and b.level > 2 else ("", "")
        shouted = Person(person.first, person.last, person.email.replace(person.last.lower(), person.last))
        keep = _entry(b, person, audience, True, "subscribed", kept)
        # the second of a list clean-up opted out under the other entry
        status = "unsubscribed" if len(people) > 1 and person is people[1] else "subscribed"
        pairs.append((keep, _entry(b, shouted, audience, False, status, gone)))
        _entry(b, person, other, False, "subscribed", "")
        alike = namesake(b, person)
        _entry(b, alike, audience, b.chance(0.5), "subscribed", "")
    for _ in range(35):
        _entry(b, b.person(b.company()), audience, True, "subscribed", b.pick(TAGS))
    b.background("campaigns", 120)

    if b.level == 2:
        (person,), ((_, double),) = people, pairs
        b.request(
            "{email} is on the {list} list twice. Please delete the entry without consent and keep the "
            "other.",
            "We have {email} two times in {list}. Keep the one where consent is given, delete the double.",
            "Could you remove a double from {list}? It is {email}; the entry that has their consent stays.",
            email=person.email,
            list=name,
        )
        b.look("campaigns_audiences_list")
        b.look("campaigns_subscribers_search", query=person.email)
        b.do("campaigns_subscribers_delete", id=double["id"])
        return

    deleted = len(pairs)
    colleague = b.person(b.org)
    for person in (colleague, namesake(b, colleague, b.org)):
        records.employee(b, person, "Marketing", title="Editor")
    b.background("people", 60)
    left: Person | None = None
    if b.level == 3:
        b.request(
            "Please clean up the {list} list. Where an address is on it twice (upper and lower case do not "
            "matter), keep the entry with consent, give it the tags of both, unsubscribe it if one of the "
            "two is unsubscribed, and delete the other. Then tell {colleague} in a direct message how many "
            "entries you deleted.",
            "The {list} audience has doubles: same address twice, sometimes spelled with capitals. The entry "
            "with consent stays and gets the tags of both; an opt-out of either one counts, so unsubscribe "
            "it then; the other is deleted. {colleague} wants the number of deleted entries by DM.",
            "Doubles in {list}: per address only one entry, the one with consent, shall stay. No tag may "
            "get lost and neither may an unsubscribe of the entry that goes. Delete the rest and DM "
            "{colleague} how many that were.",
            list=name,
            colleague=colleague.name,
        )
    else:
        left = b.pick(people)
        deleted += 1
        for person in people:
            status = "left" if person is left else "active"
            records.contact(b, person, status=status)
            alike = namesake(b, person)
            records.contact(b, alike, status=b.pick(("active", "left")))
        log = records.sheet(b, LOG, ["Date", "Audience", "Deleted"])
        for _ in range(6):
            records.row(b, log, b.day(-200, -20), b.pick((name, elsewhere)), b.integer(1, 9))
        records.background(b, crm=80, sheets=40, documents=25, chat=20)
        now = {"keep": "with consent stays", "left": "both entries are deleted"}
        old = {"keep": "without consent stays", "left": "the entry that stays is bounced"}
        revised_policy(b, "List hygiene policy", _rules(colleague.name), now, old)
        b.request(
            "Please remove the doubles from the {list} list. Our list hygiene policy says how.",
            "The {list} list has people on it twice. Could you clean that up by the list hygiene policy?",
            "Time to tidy up {list}: find the doubles and treat them as the list hygiene policy wants it, "
            "including what it says about reporting.",
            list=name,
        )
        steps.read_documents(b, "list hygiene policy")

    b.look("campaigns_audiences_list")
    b.look("campaigns_subscribers_list", audience_id=audience["id"], limit=100)
    for person, (keep, double) in zip(people, pairs, strict=True):
        if b.level == 4:
            b.look("crm_contacts_search", query=person.email)
        if person is left:
            b.do("campaigns_subscribers_delete", id=keep["id"])
        elif "tags" in double:
            b.do("campaigns_subscribers_update", id=keep["id"], tags=[*keep["tags"], *double["tags"]])
        elif double["status"] == "unsubscribed":
            b.do("campaigns_subscribers_unsubscribe", id=keep["id"])
        b.do("campaigns_subscribers_delete", id=double["id"])
    b.look("people_employees_search", query=colleague.name)
    number = (str(deleted), WORDS[deleted])
    steps.send_message(b, colleague.email, f"{deleted} entries of {name} are deleted.", number)
    if b.level == 4:
        b.look("sheets_spreadsheets_search", query=LOG)
        values = {"Date": b.date(0), "Audience": name, "Deleted": one_of(deleted, str(deleted))}
        b.do("sheets_rows_create", spreadsheet_id=log["id"], values=values, tab=free("Sheet1"))


def _entry(b: Builder, person: Person, audience: Record, consent: bool, status: str, tag: str) -> Record:
    state = {"status": status, "consent": consent, "tags": [tag] if tag else None}
    return records.subscriber(b, audience, person, country=b.city(), **state)


def _rules(colleague: str) -> str:
    return (
        "1. A double is an address that is on one audience twice; upper and lower case do not matter. People "
        "who are on several audiences are no doubles.\n"
        "2. Of the two entries the one {keep} and gets the tags of both. If either is unsubscribed, the one "
        "that stays is unsubscribed. The other is deleted.\n"
        "3. Exception: if the CRM has a contact with that address who has left the company, {left}.\n"
        f"4. {colleague} gets a direct message with the number of entries that were deleted in all.\n"
        f"5. A new row in the spreadsheet {LOG} says the day (Date, like 2026-03-04), the name of the "
        "audience (Audience) and the number of deleted entries (Deleted)."
    )
