"""The one return that waits for an answer, of those for some reason, is approved."""

from mcp_bench.servers.saasworld.authoring import Builder, Record, family, records
from mcp_bench.servers.saasworld.authoring.finding import find

REASONS = {
    "damaged": "the goods were damaged",
    "wrong_item": "we sent the wrong item",
    "not_wanted": "the goods are not wanted",
    "late": "the goods came late",
}


@family(levels=(1,))
def granted_return(b: Builder) -> None:
    reason = b.pick(tuple(REASONS))
    _return(b, reason, "requested")
    for done in b.sample(("approved", "rejected", "received"), 2):
        _return(b, reason, done)
    for other in REASONS:
        if other != reason:
            _return(b, other, b.pick(("requested", "requested", "received")))
    b.background("orders", 16)
    b.request(
        "One return where {why} has not been answered yet. Please approve it.",
        "Can you approve the open return, the one where {why}? It is still only requested.",
        "A customer asks for a return because {why}. It waits for us: approve it, please.",
        "Because {why}, somebody has requested a return. There is only one such request; it is fine with me.",
        why=REASONS[reason],
    )
    asked = find(b, "orders_returns_list", reason=reason, status="requested")
    b.do("orders_returns_approve", id=asked["id"])


def _return(b: Builder, reason: str, status: str) -> Record:
    supplier, price, quantity = b.person(b.company()).email, b.amount(10, 300), b.integer(2, 9)
    stock = {"stock": b.integer(20, 90), "reorder_level": 20, "supplier_email": supplier}
    item = {"sku": records.sku(b), "name": b.product(), "price": price, "currency": "USD"}
    product = b.add("orders.products", **item, **stock)
    when = {"placed_on": b.day(-60, -21), "delivered_on": b.day(-20, -2), "address": records.address(b)}
    order = records.order(b, b.person(), product, quantity, "delivered", **when)
    back = b.integer(1, quantity)
    return b.add("orders.returns", order_id=order["id"], quantity=back, reason=reason, status=status)
