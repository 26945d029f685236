"""Somebody has read a document, and comments on it."""

from mcp_bench.servers.saasworld.authoring import Builder, family, records, steps
from mcp_bench.servers.saasworld.authoring.wording import says, spoken


@family(levels=(1,))
def document_comment(b: Builder) -> None:
    owner, day, number = b.person(b.org), b.day(5, 60), b.integer(3, 29)
    kind, name = b.pick((("guide", "Forklift rules"), ("contract", "Lease"), ("note", "Canteen plan")))
    title = f"{name} {b.city()}"
    body = f"This is what we agreed on in {b.city()}. It is looked at again on {b.day(61, 200)}."
    more = {"version": f"{b.integer(1, 6)}.{b.integer(0, 4)}", "effective_from": b.day(-400, -30)}
    records.document(b, title, kind, body, b.pick(("draft", "published")), owner, **more)
    b.background("documents", 18)
    text, mention = b.pick(
        (
            (f"This has to be checked by {day}.", spoken(day)),
            (f"There is a mistake on page {number}.", (str(number),)),
            (f"It took me {number} minutes to read.", (str(number),)),
            (f"We talk about this on {day}.", spoken(day)),
        )
    )
    tool, by, it = b.pick(
        (
            ("documents_search", {"query": title}, f'the document "{title}"'),
            ("documents_list", {"owner_email": owner.email}, f"the only document of {owner.email}"),
        )
    )
    b.request(
        'Please comment on {it}: "{text}"',
        'Can you leave a comment on {it}? It should say: "{text}"',
        '"{text}" - please add that to {it} as a comment.',
        'I have read {it}. Put a comment on it for me, please: "{text}"',
        it=it,
        text=text,
    )
    document = steps.find(b, tool, **by)
    b.do("documents_comments_create", document_id=document["id"], body=says(text, mention))
