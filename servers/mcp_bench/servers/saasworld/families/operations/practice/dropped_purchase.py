"""A draft of a purchase order is not needed any more and is deleted; what the supplier delivered stays."""

from mcp_bench.servers.saasworld.authoring import Builder, Record, family, records, steps


@family(levels=(1,))
def dropped_purchase(b: Builder) -> None:
    suppliers = [f"orders@{b.company().domain}" for _ in range(4)]
    supplier = suppliers[0]
    purchase = _purchase(b, supplier, "draft")
    _purchase(b, supplier, b.pick(("received", "sent", "cancelled")))
    for other in suppliers[1:]:
        _purchase(b, other, "draft")
        _purchase(b, other, b.pick(("received", "sent")))
    b.background("orders", 16)
    b.request(
        "Please delete the draft purchase order for {supplier}.",
        "We do not need what we drafted for {supplier} any more. Delete that draft purchase order, please.",
        "Can you remove our draft of an order to {supplier}? Delete it for good; their other one stays.",
        "The goods are in stock again, so the purchase order for {supplier} that is still a draft can go. "
        "Delete it, would you?",
        "{supplier}: the draft purchase order was a mistake, please delete it.",
        supplier=supplier,
    )
    steps.find(b, "orders_purchase_orders_list", supplier_email=supplier, status="draft")
    b.do("orders_purchase_orders_delete", id=purchase["id"])


def _purchase(b: Builder, supplier: str, status: str) -> Record:
    price = b.amount(100, 300)
    stock = {"stock": b.integer(20, 90), "reorder_level": 20, "supplier_email": supplier}
    item = {"sku": records.sku(b), "name": b.product(), "price": price, "currency": "USD"}
    product = b.add("orders.products", **item, **stock)
    terms = {"quantity": b.amount(20, 400, 5), "unit_cost": price - 5, "needed_by": b.day(2, 30)}
    what = {"product_id": product["id"], "supplier_email": supplier, "status": status}
    return b.add("orders.purchase_orders", **what, **terms)
