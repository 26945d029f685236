"""Something about a candidate becomes known: a number, an address, a rating, a source or the first day."""

from mcp_bench.servers.saasworld.authoring import Builder, family, records, steps

SOURCES = {"website": "our website", "referral": "a referral", "agency": "an agency", "event": "an event"}


@family(levels=(1,))
def applicant_details(b: Builder) -> None:
    person = b.person()
    old, source = b.sample(tuple(SOURCES), 2)
    before, rating = b.sample((1, 2, 3, 4, 5), 2)
    phone, day = b.phone(), b.day(15, 90)
    email = f"{person.last}.{person.first[0]}@mailbox.example".lower()
    state = {"location": b.city(), "status": "open", "headcount": 2}
    job = records.job(b, "Night Porter", "Operations", b.pick(b.staff), **state)
    about = {"source": old, "rating": before, "phone": b.phone()}
    candidate = records.candidate(b, job, person, b.pick(("interview", "offer")), **about)
    b.background("hiring", 20)
    field, value, said = b.pick(
        (
            ("phone", phone, f"has the phone number {phone} now"),
            ("email", email, f"wants mails at {email} from now on"),
            ("rating", rating, f"is rated {rating} of 5 now"),
            ("source", source, f"came through {SOURCES[source]}, not {SOURCES[old]}"),
            ("start_date", day, f"would start on {day}"),
        )
    )
    tool, by, whom = b.pick(
        (
            ("hiring_candidates_search", {"query": person.name}, person.name),
            ("hiring_candidates_list", {"email": person.email}, person.email),
        )
    )
    b.request(
        "Our candidate {who} {said}. Please put that in.",
        "Please update the candidate {who}, who {said}.",
        "Can you change something in hiring? {who} {said}.",
        "For the file: our candidate {who} {said}. Update it, please.",
        who=whom,
        said=said,
    )
    steps.find(b, tool, **by)
    b.do("hiring_candidates_update", id=candidate["id"], **{field: value})
