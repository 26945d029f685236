"""A customer sends goods of an order back, all or some of them."""

from mcp_bench.servers.saasworld.authoring import Builder, family, records, steps

REASONS = (
    ("damaged", "damaged"),
    ("wrong_item", "the wrong item"),
    ("not_wanted", "not wanted any more"),
    ("late", "too late"),
)


@family(levels=(1,))
def goods_sent_back(b: Builder) -> None:
    person, ordered = b.person(), b.integer(2, 9)
    supplier, price = b.person(b.company()).email, b.amount(10, 300)
    stock = {"stock": b.integer(20, 90), "reorder_level": 20, "supplier_email": supplier}
    item = {"sku": records.sku(b), "name": b.product(), "price": price, "currency": "USD"}
    product = b.add("orders.products", **item, **stock)
    when = {"placed_on": b.day(-60, -21), "delivered_on": b.day(-20, -2), "address": records.address(b)}
    order = records.order(b, person, product, ordered, "delivered", **when)
    b.background("orders", 18)
    reason, said = b.pick(REASONS)
    back = b.pick((ordered, b.integer(1, ordered - 1)))
    tool, by, it = b.pick(
        (
            ("orders_search", {"query": order["number"]}, f"order {order['number']}"),
            ("orders_search", {"query": person.name}, f"the order of {person.name}"),
            ("orders_list", {"customer_email": person.email}, f"the order of {person.email}"),
        )
    )
    amount = "all" if back == ordered else back
    b.request(
        "The customer sends back {amount} of the {ordered} pieces from {it}, reason: {said}. Please put "
        "the return in.",
        "Please enter a return for {it}: {amount} of {ordered} pieces, reason: {said}.",
        "Goods are coming back from {it}, {amount} of the {ordered} pieces. Can you open a return? The "
        "reason is: {said}.",
        'Reason "{said}": {amount} of {ordered} pieces of {it} come back. Make a return for them, please.',
        amount=amount,
        ordered=ordered,
        it=it,
        said=said,
    )
    steps.find(b, tool, **by)
    b.do("orders_returns_create", order_id=order["id"], quantity=back, reason=reason)
