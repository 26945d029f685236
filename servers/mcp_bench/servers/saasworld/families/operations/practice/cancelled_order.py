"""A customer takes an order back before it has left."""

from mcp_bench.servers.saasworld.authoring import Builder, family, records, steps
from mcp_bench.servers.saasworld.authoring.wording import free

REASONS = ("ordered it twice", "found it cheaper elsewhere", "cannot wait that long", "picked the wrong size")


@family(levels=(1,))
def cancelled_order(b: Builder) -> None:
    person, other = b.person(), b.person()
    supplier, price, quantity = b.person(b.company()).email, b.amount(10, 300), b.integer(1, 6)
    stock = {"stock": b.integer(20, 90), "reorder_level": 20, "supplier_email": supplier}
    item = {"sku": records.sku(b), "name": b.product(), "price": price, "currency": "USD"}
    product = b.add("orders.products", **item, **stock)
    state, why = b.pick(("placed", "paid")), b.pick(REASONS)
    more = {"address": records.address(b), "placed_on": b.day(-20, -1)}
    order = records.order(b, person, product, quantity, state, **more)
    more = {"address": records.address(b), "placed_on": b.day(-20, -1)}
    records.order(b, other, product, b.integer(1, 6), "placed", **more)
    b.background("orders", 18)
    tool, by, it = b.pick(
        (
            ("orders_search", {"query": order["number"]}, f"order {order['number']}"),
            ("orders_search", {"query": person.name}, f"the order of {person.name}"),
            ("orders_list", {"customer_email": person.email}, f"the order of {person.email}"),
        )
    )
    b.request(
        "Please cancel {it}.",
        "The customer {why}: please cancel {it}.",
        "Can you cancel {it}? The customer {why}.",
        "It has not left yet, so we can still stop it: cancel {it}, please.",
        "We have to call off {it}, because the customer {why}.",
        it=it,
        why=why,
    )
    steps.find(b, tool, **by)
    b.do("orders_cancel", id=order["id"], reason=free(f"The customer {why}."))
