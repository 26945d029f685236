"""Orders: products and stock, orders, returns, purchase orders."""

from typing import Any

from mcp_bench.servers.saasworld.engine.api_error import ApiError
from mcp_bench.servers.saasworld.engine.app import App
from mcp_bench.servers.saasworld.engine.fields import (
    choice,
    date,
    email,
    ident,
    integer,
    number,
    prose,
    ref,
    text,
)
from mcp_bench.servers.saasworld.engine.operation import Arguments
from mcp_bench.servers.saasworld.engine.resource import Resource
from mcp_bench.servers.saasworld.engine.seeder import Seeder
from mcp_bench.servers.saasworld.engine.state import State, require_status

CURRENCIES = ("USD", "EUR", "GBP", "JPY")

PRODUCTS = Resource(
    "orders",
    "products",
    "product",
    "prd",
    "What we sell, and how much of it is in stock.",
    (
        text("sku", "Stock keeping unit.", filter=True),
        text("name", "Name."),
        number("price", "Price."),
        choice("currency", "Currency of the price.", *CURRENCIES),
        integer("stock", "Pieces in stock.", required=True),
        integer("reorder_level", "Order more below this."),
        email("supplier_email", "Supplier."),
        choice("status", "State.", "active", "discontinued", default="active"),
    ),
    ("list", "get", "search", "update"),
)
ORDERS = Resource(
    "orders",
    "orders",
    "order",
    "ord",
    "Orders by customers.",
    (
        text("number", "Number that people use for it.", system=True, auto="number:SO", filter=True),
        text("customer_name", "Who ordered."),
        email("customer_email", "Address of the customer.", required=True, key=True),
        ref("product_id", "orders.products", "Product.", required=True),
        integer("quantity", "Pieces.", least=1, required=True),
        number("total", "Total price."),
        choice("currency", "Currency of the total.", *CURRENCIES),
        choice(
            "status",
            "State.",
            "placed",
            "paid",
            "shipped",
            "delivered",
            "cancelled",
            readonly=True,
            default="placed",
        ),
        text("address", "Where it goes."),
        text("carrier", "Who carries it.", readonly=True),
        text("tracking", "Tracking number.", readonly=True),
        date("placed_on", "Day of the order", system=True, auto="today"),
        date("delivered_on", "Day of delivery", readonly=True),
        prose("note", "Internal note."),
    ),
    ("list", "get", "search", "create", "update"),
)
RETURNS = Resource(
    "orders",
    "returns",
    "return",
    "ret",
    "Goods that customers send back.",
    (
        ref("order_id", "orders.orders", "Order.", required=True),
        integer("quantity", "Pieces.", least=1, required=True),
        choice("reason", "Why.", "damaged", "wrong_item", "not_wanted", "late", required=True),
        choice(
            "status",
            "State.",
            "requested",
            "approved",
            "rejected",
            "received",
            readonly=True,
            default="requested",
        ),
        prose("note", "Internal note."),
    ),
    ("list", "get", "create"),
)
PURCHASES = Resource(
    "orders",
    "purchase_orders",
    "purchase order",
    "po",
    "What we order from suppliers.",
    (
        ref("product_id", "orders.products", "Product.", required=True),
        email("supplier_email", "Supplier.", required=True, key=True),
        integer("quantity", "Pieces.", least=1, required=True),
        number("unit_cost", "Cost of a piece."),
        date("needed_by", "Day it is needed"),
        choice("status", "State.", "draft", "sent", "received", "cancelled", default="draft"),
        prose("note", "Note to the supplier."),
    ),
)


@ORDERS.action("cancel", "Cancel an order that has not left.", ident("order"), prose("reason", "Why."))
def cancel(state: State, args: Arguments) -> dict[str, Any]:
    order = require_status(state.need("orders.orders", args["id"]), "order", "placed", "paid")
    return state.update("orders.orders", order, status="cancelled")


@ORDERS.action(
    "ship",
    "Send a paid order off; it is taken from the stock.",
    ident("order"),
    choice("carrier", "Who carries it.", "dhl", "ups", "fedex", "post", required=True),
    text("tracking", "Tracking number.", required=True),
)
def ship(state: State, args: Arguments) -> dict[str, Any]:
    order = require_status(state.need("orders.orders", args["id"]), "order", "paid")
    product = state.need("orders.products", order["product_id"])
    if product["stock"] < order["quantity"]:
        raise ApiError("conflict", f"Only {product['stock']} in stock.")
    state.update("orders.products", product, stock=product["stock"] - order["quantity"])
    return state.update(
        "orders.orders", order, status="shipped", carrier=args["carrier"], tracking=args["tracking"]
    )


@RETURNS.action("approve", "Approve a return.", ident("return"))
def approve(state: State, args: Arguments) -> dict[str, Any]:
    found = require_status(state.need("orders.returns", args["id"]), "return", "requested")
    return state.update("orders.returns", found, status="approved")


@RETURNS.action("reject", "Turn a return down.", ident("return"), prose("note", "Why."))
def reject(state: State, args: Arguments) -> dict[str, Any]:
    found = require_status(state.need("orders.returns", args["id"]), "return", "requested")
    more = {"note": args["note"]} if "note" in args else {}
    return state.update("orders.returns", found, status="rejected", **more)


def populate(s: Seeder, count: int) -> None:
    for _ in range(max(1, count // 3)):
        price, supplier = s.amount(10, 400, 1), s.person(s.company()).email
        product = s.add(
            "orders.products",
            sku=f"SKU-{s.integer(10000, 99999)}",
            name=s.product(),
            price=price,
            currency="USD",
            stock=s.integer(0, 300),
            reorder_level=s.integer(10, 60),
            supplier_email=supplier,
            status=s.pick(("active", "active", "active", "discontinued")),
        )
        for _ in range(2):
            person, quantity = s.person(), s.integer(1, 6)
            status = s.pick(("placed", "paid", "shipped", "delivered", "cancelled"))
            order = s.add(
                "orders.orders",
                customer_name=person.name,
                customer_email=person.email,
                product_id=product["id"],
                quantity=quantity,
                total=quantity * price,
                currency="USD",
                status=status,
                address=f"{s.integer(1, 240)} {s.pick(s.words.streets)} Street, {s.city()}",
                placed_on=s.day(-90, -21),
                delivered_on=s.day(-20, -1) if status == "delivered" else None,
            )
        if s.chance(0.2):
            reason = s.pick(("damaged", "wrong_item", "not_wanted", "late"))
            s.add("orders.returns", order_id=order["id"], quantity=1, reason=reason)


APP = App(
    "orders",
    "Products, orders and suppliers.",
    (PRODUCTS, ORDERS, RETURNS, PURCHASES),
    populate,
    (cancel, ship, approve, reject),
)
