"""A customer orders a product, at its price, for an address or without one."""

from mcp_bench.servers.saasworld.authoring import Builder, family, records, steps
from mcp_bench.servers.saasworld.authoring.wording import one_of


@family(levels=(1,))
def customer_order(b: Builder) -> None:
    person, name, price, quantity = b.person(), b.product(), b.amount(10, 400, 1), b.integer(2, 30)
    stock = {"stock": b.integer(40, 300), "reorder_level": b.integer(10, 30)}
    supplier, sku = b.person(b.company()).email, records.sku(b)
    item = {"sku": sku, "name": name, "price": price, "currency": "USD"}
    b.add("orders.products", **item, **stock, supplier_email=supplier)
    b.background("orders", 18)
    where = records.address(b) if b.chance(0.5) else ""
    tool, by, what = b.pick(
        (
            ("orders_products_search", {"query": name}, name),
            ("orders_products_list", {"sku": sku}, f"the product {sku}"),
        )
    )
    b.request(
        "{name} ({email}) orders {quantity} pieces of {what}{to}. Please enter the order.",
        "Please enter an order: {quantity} pieces of {what} for {name}, {email}{to}.",
        "I have {name} on the phone, who wants {quantity} of {what}{to}. Can you put in the order? The mail "
        "address is {email}.",
        "New order by {name}, {email}: {quantity} of {what}{to}. Usual price.",
        "Could you take down an order of {quantity} of {what}{to}? The customer is {name}, {email}.",
        name=person.name,
        email=person.email,
        quantity=quantity,
        what=what,
        to=f", to be sent to {where}" if where else "",
    )
    product = steps.find(b, tool, **by)
    who = {"customer_name": person.name, "customer_email": person.email}
    price_of_all = {"total": one_of(quantity * price, None), "currency": one_of("USD", None)}
    address = {"address": where} if where else {}
    b.do("orders_create", **who, product_id=product["id"], quantity=quantity, **price_of_all, **address)
