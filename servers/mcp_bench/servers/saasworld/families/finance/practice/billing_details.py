"""The billing details of a customer change: address for invoices, days to pay, tax number or city."""

from mcp_bench.servers.saasworld.authoring import Builder, family, records, steps


@family(levels=(1,))
def billing_details(b: Builder) -> None:
    company, cities, terms = b.company(), b.sample(b.words.cities, 2), b.sample((15, 30, 45, 60), 2)
    old, tax = (f"{b.integer(10, 99)}-{b.integer(1000000, 9999999)}" for _ in range(2))
    known = {"payment_terms": f"net_{terms[0]}", "tax_id": old, "city": cities[0]}
    records.customer(b, company, b.pick(("USD", "EUR", "GBP")), "accounts", **known)
    email = f"{b.pick(('payables', 'invoicing', 'bookkeeping'))}@{company.domain}"
    new, news = b.pick(
        (
            ({"email": email}, f"our invoices go to {email} now"),
            ({"payment_terms": f"net_{terms[1]}"}, f"they have {terms[1]} days to pay from now on"),
            ({"tax_id": tax}, f"their tax number is {tax}"),
            ({"city": cities[1]}, f"they have moved to {cities[1]}"),
            (
                {"city": cities[1], "tax_id": tax},
                f"they are in {cities[1]} now, and their tax number is {tax}",
            ),
        )
    )
    b.background("billing", 18)
    b.request(
        "{company}: {news}. Please update them in billing.",
        "Please correct what billing has about {company}: {news}.",
        "We bill {company} with old data: {news}. Can you change that?",
        "News from our customer {company}: {news}. Put it into billing, please.",
        "Can you fix the billing details of {company}? It seems that {news}.",
        company=company.name,
        news=news,
    )
    found = steps.find(b, "billing_customers_search", query=company.name)
    b.do("billing_customers_update", id=found["id"], **new)
