"""A product gets another price, reorder level or status.

Level 2: the price moves by a percentage; products of the same line and kind have nearly the same name,
and a discontinued one has just the same.
"""

from mcp_bench.servers.saasworld.authoring import Builder, Record, family, records


@family(levels=(1, 2))
def product_details(b: Builder) -> None:
    name = b.product()
    price, low = b.amount(20, 400, 20), b.integer(10, 60)
    product = _product(b, name, price, low, "active")
    b.background("orders", 16 if b.level == 1 else 150)

    if b.level == 1:
        field, word, new = b.pick(
            (
                ("price", "price", price + b.amount(5, 90, 5)),
                ("reorder_level", "reorder level", low + b.integer(5, 80)),
                ("status", "status", "discontinued"),
            )
        )
        b.request(
            "Please change the {word} of the {name} to {new}.",
            "The {word} of the {name} is {new} now. Can you put it in?",
            "New {word} for the {name}: {new}.",
            "{name}: the {word} should be {new}, please fix it.",
            name=name,
            word=word,
            new=new,
        )
    else:
        percent = b.pick((5, 10, 15, 20, 25))
        up = b.chance(0.5)
        field, new = "price", price * (100 + (percent if up else -percent)) / 100
        stem = name.rpartition(" ")[0]
        for twin in (f"{stem} {b.integer(10, 19)}00", f"{stem} {b.integer(20, 29)}00", f"{name} Mini"):
            _product(b, twin, price, low, "active")
        _product(b, name, price - 10, low, "discontinued")
        b.request(
            "Please {verb} the price of the {name} by {percent} percent, the one that we still sell.",
            "The {name} gets {percent} percent {more}. Can you change its price? Not that of the old, "
            "discontinued one.",
            "{name}: {percent} percent {more}, please. I mean the active product of just that name.",
            name=name,
            percent=percent,
            verb="raise" if up else "lower",
            more="more expensive" if up else "cheaper",
        )
    b.look("orders_products_search", query=name)
    b.do("orders_products_update", id=product["id"], **{field: new})


def _product(b: Builder, name: str, price: int, low: int, status: str) -> Record:
    return b.add(
        "orders.products",
        sku=records.sku(b),
        name=name,
        price=price,
        currency="USD",
        stock=b.integer(0, 300),
        reorder_level=low,
        supplier_email=b.person(b.company()).email,
        status=status,
    )
