"""Somebody gets access to a document.

Level 2: a draft and an archived one have the same title, colleagues nearly the same name, and the
address has to be looked up.
"""

from mcp_bench.servers.saasworld.authoring import Builder, Record, family, records
from mcp_bench.servers.saasworld.authoring.traps import namesake

KINDS = ("Tender", "Test report", "Cost sheet", "Launch plan", "Supplier review")
ROLES = ("viewer", "commenter", "editor")


@family(levels=(1, 2), held_out=True)
def document_access(b: Builder) -> None:
    kind = b.pick(KINDS)
    title = f"{kind} {b.product()}"
    document = _document(b, title, "published")
    person, role = b.person(b.org), b.pick(ROLES)
    b.background("documents", 20 if b.level == 1 else 120)
    values = {"title": title, "role": role, "email": person.email, "name": person.name}

    if b.level == 1:
        b.request(
            'Please share the document "{title}" with {email}, role {role}.',
            '{email} needs access to "{title}" as {role}. Can you share it?',
            'Could you make {email} {role} of the document "{title}"?',
            'Access to "{title}": {email} as {role}, please.',
            **values,
        )
    else:
        for status in ("draft", "archived"):
            _document(b, title, status)
        _document(b, f"{kind} {b.product()}", "published")
        _document(b, f"{title} (short)", "published")
        for one in (person, namesake(b, person, b.org), namesake(b, person, b.org)):
            records.employee(b, one, b.pick(("Sales", "Finance")))
        b.background("people", 40)
        b.request(
            'Please share the published "{title}" with our colleague {name}, role {role}.',
            '{name} from our company needs access to "{title}" as {role}: the one that is published, and to '
            "nothing else.",
            'Could you make our colleague {name} {role} of the document "{title}"? Not '
            "a draft, the published one.",
            **values,
        )
        b.look("people_employees_search", query=person.name)
    b.look("documents_search", query=title)
    b.do("documents_shares_create", document_id=document["id"], email=person.email, role=role)


def _document(b: Builder, title: str, status: str) -> Record:
    body = f"Figures for {b.city()}, as of {b.day(-90, -9)}."
    version, since = f"{b.integer(1, 6)}.{b.integer(0, 4)}", b.day(-400, -30)
    document = records.document(
        b, title, "note", body, status, b.pick(b.staff), version=version, effective_from=since
    )
    for reader in b.sample(b.staff, b.integer(1, 3)):
        b.add("documents.shares", document_id=document["id"], email=reader.email, role=b.pick(ROLES))
    return document
