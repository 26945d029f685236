"""The one return that waits for an answer, of those for some reason, is approved."""

from mcp_bench.servers.saasworld.authoring import Builder, Record, family, records, steps

REASONS = {
    "damaged": "the goods were damaged",
    "wrong_item": "we sent the wrong item",
    "not_wanted": "the goods are not wanted",
    "late": "the goods came late",
}


@family(levels=(1,))
def granted_return(b: Builder) -> None:
    reason, sizes = b.pick(tuple(REASONS)), b.sample(range(2, 40), 6)
    _return(b, reason, sizes[0], "requested")
    for size, done in zip(sizes[1:3], b.sample(("approved", "rejected", "received"), 2), strict=True):
        _return(b, reason, size, done)
    others = [other for other in REASONS if other != reason]
    for size, other in zip(sizes[3:], others, strict=True):
        _return(b, other, size, b.pick(("requested", "requested", "received")))
    b.background("orders", 16)
    b.request(
        "One return where {why} has not been answered yet, {size} pieces. Please approve it.",
        "Can you approve the open return of {size} pieces where {why}? It is still only requested.",
        "A customer asks to return {size} pieces because {why}. It waits for us: approve it, please.",
        "Because {why}, somebody has requested a return ({size} pieces). Approve it, that is fine with me.",
        why=REASONS[reason],
        size=sizes[0],
    )
    asked = steps.find(b, "orders_returns_list", reason=reason, status="requested")
    b.do("orders_returns_approve", id=asked["id"])


def _return(b: Builder, reason: str, size: int, status: str) -> Record:
    supplier, price = b.person(b.company()).email, b.amount(10, 300)
    stock = {"stock": b.integer(20, 90), "reorder_level": 20, "supplier_email": supplier}
    item = {"sku": records.sku(b), "name": b.product(), "price": price, "currency": "USD"}
    product = b.add("orders.products", **item, **stock)
    when = {"placed_on": b.day(-60, -21), "delivered_on": b.day(-20, -2), "address": records.address(b)}
    order = records.order(b, b.person(), product, size + b.integer(0, 5), "delivered", **when)
    return b.add("orders.returns", order_id=order["id"], quantity=size, reason=reason, status=status)
