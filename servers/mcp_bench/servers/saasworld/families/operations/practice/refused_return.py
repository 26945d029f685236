"""A return is turned down, with a note that says why."""

from mcp_bench.servers.saasworld.authoring import Builder, Record, family, records, steps
from mcp_bench.servers.saasworld.authoring.wording import says

NOTES = (
    ("the 30 days are over", "30"),
    ("the goods have been used", "used"),
    ("it was a final sale", "sale*"),
    ("the seal is broken", "seal*"),
    ("the receipt is missing", "receipt"),
)


@family(levels=(1,))
def refused_return(b: Builder) -> None:
    sizes = b.sample(range(5, 40), 5)
    _return(b, sizes[0], "requested")
    for size in sizes[1:]:
        _return(b, size, b.pick(("requested", "requested", "received", "approved")))
    b.background("orders", 16)
    why, word = b.pick(NOTES)
    b.request(
        "Please reject the return of {size} pieces and note that {why}.",
        "Somebody wants to send back {size} pieces, but {why}. Turn the return down with that as the note.",
        "Can you turn down the requested return of {size} pieces? Please put into the note that {why}.",
        "The {size} pieces that a customer wants to return: no, {why}. Reject it with this note.",
        "Return of {size} pieces - rejected, because {why}. Please enter it, with the reason.",
        size=sizes[0],
        why=why,
    )
    asked = steps.find(b, "orders_returns_list", quantity_min=sizes[0], quantity_max=sizes[0])
    b.do("orders_returns_reject", id=asked["id"], note=says(f"{why[0].upper()}{why[1:]}.", word))


def _return(b: Builder, size: int, status: str) -> Record:
    supplier, price = b.person(b.company()).email, b.amount(10, 300)
    stock = {"stock": b.integer(20, 90), "reorder_level": 20, "supplier_email": supplier}
    item = {"sku": records.sku(b), "name": b.product(), "price": price, "currency": "USD"}
    product = b.add("orders.products", **item, **stock)
    when = {"placed_on": b.day(-60, -41), "delivered_on": b.day(-39, -31), "address": records.address(b)}
    order = records.order(b, b.person(), product, size + b.integer(0, 5), "delivered", **when)
    reason = b.pick(("damaged", "wrong_item", "not_wanted", "late"))
    return b.add("orders.returns", order_id=order["id"], quantity=size, reason=reason, status=status)
