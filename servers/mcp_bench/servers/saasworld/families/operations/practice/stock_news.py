"""A colleague wants to know how much of a product there is, or what it costs, and gets a mail."""

from mcp_bench.servers.saasworld.authoring import Builder, family, records, steps


@family(levels=(1,))
def stock_news(b: Builder) -> None:
    who, name, sku = b.pick(b.staff), b.product(), records.sku(b)
    stock, price, level = b.sample(range(21, 99), 3)
    supplier = b.person(b.company()).email
    item = {"sku": sku, "name": name, "price": price, "currency": "USD"}
    b.add("orders.products", **item, stock=stock, reorder_level=level, supplier_email=supplier)
    b.background("orders", 18)
    b.background("mail", 6)
    fact, said = b.pick((("stock", "how many pieces there are in stock"), ("price", "what the price is")))
    tool, by, what = b.pick(
        (
            ("orders_products_search", {"query": name}, name),
            ("orders_products_list", {"sku": sku}, f"the product {sku}"),
        )
    )
    b.request(
        "{who} asks about {what}: {said}. Please look it up and answer by mail.",
        "Please send a mail to {who} that says {said} for {what}.",
        "Can you find {what} and write to {who}, {said}? A short mail is enough.",
        "I promised to tell {who} {said} for {what}. Could you mail it for me?",
        who=who.email,
        what=what,
        said=said,
    )
    found = steps.find(b, tool, **by)
    text = f"{name}: the {fact} is {found[fact]}."
    steps.send_mail(b, who.email, f"{name}: {fact}", text, found[fact])
