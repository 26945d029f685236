"""A document gets another title, owner or version number.

Level 2: a draft and archived ones have the same title, and others nearly the same.
"""

from mcp_bench.servers.saasworld.authoring import Builder, Record, family, records

KINDS = ("Care guide", "Data sheet", "Price list", "Manual", "Safety notes")


@family(levels=(1, 2))
def document_details(b: Builder) -> None:
    kind = b.pick(KINDS)
    title = f"{kind} {b.product()}"
    major = b.integer(2, 7)
    document = _document(b, title, f"{major}.{b.integer(0, 4)}", "published")
    owner = b.pick([one.email for one in b.staff if one.email != document["owner_email"]])
    field, word, new = b.pick(
        (
            ("title", "title", f"{kind} {b.product()}"),
            ("owner_email", "owner", owner),
            ("version", "version", f"{major + 1}.{b.integer(0, 4)}"),
        )
    )
    b.background("documents", 20 if b.level == 1 else 160)
    values = {"title": title, "word": word, "new": new}

    if b.level == 1:
        b.request(
            'Please change the {word} of the document "{title}" to {new}.',
            'The {word} of "{title}" is {new} now. Can you put it in?',
            'Document "{title}", new {word}: {new}.',
            '"{title}" has the wrong {word}. It should be {new}, please fix it.',
            **values,
        )
    else:
        for status in ("draft", "archived", "archived"):
            _document(b, title, f"{major - 1}.{b.integer(0, 4)}", status)
        _document(b, f"{title} (short)", document["version"], "published")
        _document(
            b, f"{b.pick([name for name in KINDS if name != kind])}{title[len(kind) :]}", "1.0", "published"
        )
        b.request(
            'Please change the {word} of the published "{title}" to {new}.',
            'The {word} of "{title}" is {new} from now on. I mean the one that is published; drafts and old '
            "ones stay as they are.",
            'Somebody noticed that the published document "{title}" has the wrong {word}: it is {new}. Can '
            "you correct just that one?",
            **values,
        )
    b.look("documents_search", query=title)
    b.do("documents_update", id=document["id"], **{field: new})


def _document(b: Builder, title: str, version: str, status: str) -> Record:
    body = f"What customers in {b.city()} should know. Last checked on {b.day(-90, -9)}."
    since, owner = b.day(-400, -30), b.pick(b.staff)
    return records.document(b, title, "guide", body, status, owner, version=version, effective_from=since)
