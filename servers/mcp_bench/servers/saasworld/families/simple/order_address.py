"""An order gets another delivery address.

Level 2: it is named by customer and product; an older order of it was delivered, the customer waits for
something else, too, and somebody of nearly the same name ordered the same.
"""

from mcp_bench.servers.saasworld.authoring import Builder, Person, Record, family, records
from mcp_bench.servers.saasworld.authoring.traps import namesake


@family(levels=(1, 2))
def order_address(b: Builder) -> None:
    person, product, new = b.person(), _product(b), records.address(b)
    order = _order(b, person, product, b.pick(("placed", "paid")))
    b.background("orders", 16 if b.level == 1 else 150)

    if b.level == 1:
        b.request(
            "Please send order {number} to {new}.",
            "{number} goes to {new} instead. Can you change the address?",
            "New address for order {number}: {new}.",
            "Wrong address on {number}. It should be {new}, please fix it.",
            number=order["number"],
            new=new,
        )
        b.look("orders_search", query=order["number"])
    else:
        _order(b, person, product, "delivered")
        _order(b, person, _product(b), "paid")
        for _ in range(3):
            _order(b, namesake(b, person), product, "paid")
        b.request(
            "The {product} for {name} goes to {new}. It has not left yet, please change the address.",
            "{name} wants the {product} at another address: {new}. Please change that for the order that is "
            "still here, nothing else.",
            "Could you correct an address? {name} ordered the {product} again, and it is not sent yet. It "
            "goes to {new} this time.",
            name=person.name,
            product=product["name"],
            new=new,
        )
        b.look("orders_products_search", query=product["name"])
        b.look("orders_list", product_id=product["id"])
    b.do("orders_update", id=order["id"], address=new)


def _product(b: Builder) -> Record:
    return b.add(
        "orders.products",
        sku=records.sku(b),
        name=b.product(),
        price=b.amount(10, 400, 1),
        currency="USD",
        stock=b.integer(0, 300),
        reorder_level=b.integer(10, 60),
        supplier_email=b.person(b.company()).email,
    )


def _order(b: Builder, person: Person, product: Record, status: str) -> Record:
    quantity, sent = b.integer(1, 6), status == "delivered"
    return records.order(
        b,
        person,
        product,
        quantity,
        status,
        address=records.address(b),
        placed_on=b.day(-90, -40) if sent else b.day(-20, -1),
        delivered_on=b.day(-30, -20) if sent else None,
    )
