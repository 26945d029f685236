"""Something about what we order from a supplier changes: quantity, cost, day or state."""

from mcp_bench.servers.saasworld.authoring import Builder, Record, family, records, steps


@family(levels=(1,))
def changed_purchase(b: Builder) -> None:
    status = b.pick(("draft", "sent"))
    purchase = _purchase(b, status)
    for _ in range(6):
        _purchase(b, b.pick(("draft", "sent", "received")))
    b.background("orders", 16)
    quantity, cost, day = b.amount(20, 400, 5), b.amount(5, 90, 1), b.day(10, 40)
    new = "sent" if status == "draft" else "received"
    field, value, said = b.pick(
        (
            ("quantity", quantity, f"we need {quantity} pieces, not {purchase['quantity']}"),
            ("unit_cost", cost, f"a piece costs {cost} USD now"),
            ("needed_by", day, f"we need the goods by {day}"),
            ("status", new, "it has been sent" if new == "sent" else "the goods have been received"),
        )
    )
    b.request(
        "Our purchase order with {supplier}: {said}. Please change that.",
        "Please update what we order from {supplier}: {said}.",
        "Can you correct the purchase order to {supplier}? The thing is, {said}.",
        "There is a purchase order for {supplier}, and {said}. Put that in, please.",
        "Small change, {said}. It is the purchase order that goes to {supplier}.",
        supplier=purchase["supplier_email"],
        said=said,
    )
    tool, name = b.pick(
        (("orders_purchase_orders_list", "supplier_email"), ("orders_purchase_orders_search", "query"))
    )
    steps.find(b, tool, **{name: purchase["supplier_email"]})
    b.do("orders_purchase_orders_update", id=purchase["id"], **{field: value})


def _purchase(b: Builder, status: str) -> Record:
    supplier, price = f"orders@{b.company().domain}", b.amount(100, 300)
    stock = {"stock": b.integer(20, 90), "reorder_level": 20, "supplier_email": supplier}
    item = {"sku": records.sku(b), "name": b.product(), "price": price, "currency": "USD"}
    product = b.add("orders.products", **item, **stock)
    terms = {"quantity": b.amount(20, 400, 5), "unit_cost": price - 5, "needed_by": b.day(2, 9)}
    what = {"product_id": product["id"], "supplier_email": supplier, "status": status}
    return b.add("orders.purchase_orders", **what, **terms)
