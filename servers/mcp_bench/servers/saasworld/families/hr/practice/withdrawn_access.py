"""Somebody has access to two documents, and loses one of them."""

from mcp_bench.servers.saasworld.authoring import Builder, family, records, steps

ROLES = ("viewer", "commenter", "editor")


@family(levels=(1,))
def withdrawn_access(b: Builder) -> None:
    guests = [b.person(b.company()) for _ in range(4)]
    shares = []
    for guest in guests:
        for role in b.sample(ROLES, 2):
            title, body = f"Building plan {b.product()}", f"Drawn in {b.city()}, {b.day(-300, -40)}."
            document = records.document(b, title, "note", body, "published", b.pick(b.staff), version="1.0")
            who = {"email": guest.email, "role": role}
            shares.append(b.add("documents.shares", document_id=document["id"], **who))
    b.background("documents", 12)
    gone = shares[0]
    b.request(
        "Please remove the access that {who} has as {role}; the other one stays.",
        "{who} is {role} of one of our documents and should not be any more. Take that access away, please.",
        "Can you delete a share for me? It is the one that makes {who} {role} of a document.",
        "Access to withdraw: {who}, {role}. What else they can see is fine.",
        "{who} has finished the work as {role}, so please remove that share of a document.",
        who=gone["email"],
        role=gone["role"],
    )
    steps.find(b, "documents_shares_list", email=gone["email"], role=gone["role"])
    b.do("documents_shares_delete", id=gone["id"])
