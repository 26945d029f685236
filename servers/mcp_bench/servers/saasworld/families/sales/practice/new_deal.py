"""A deal with an account is entered, with its amount and what else is known of it."""

from mcp_bench.servers.saasworld.authoring import Builder, family, records, steps


@family(levels=(1,))
def new_deal(b: Builder) -> None:
    company, currency, amount = b.company(), b.pick(("USD", "EUR", "GBP")), b.amount(2000, 60000, 250)
    name, day = f"{b.product()} {b.pick(('order', 'rollout', 'trial', 'contract'))}", b.day(10, 150)
    owner, stage = b.pick(b.staff).email, b.pick(("proposal", "negotiation"))
    records.account(b, company, city=b.city(), domain=company.domain, owner_email=owner)
    more, rest = b.pick(
        (
            ({"close_date": day}, f"expected to close on {day}"),
            ({"stage": stage}, f"which is in {stage} already"),
            ({"kind": "expansion"}, "an expansion"),
            ({"stage": stage, "close_date": day}, f"in {stage}, to close on {day}"),
        )
    )
    b.background("crm", 16)
    b.request(
        'Please enter a deal with {company}: "{name}" over {amount} {currency}, {rest}.',
        'New deal for the account {company}, please: "{name}", {amount} {currency}, {rest}.',
        'We may sell something to {company}. Can you create the deal "{name}", {amount} {currency}, {rest}?',
        'Put "{name}" into the CRM as a deal of {company}. It is worth {amount} {currency}; {rest}.',
        '{amount} {currency} for "{name}", {rest}: enter this deal at {company}, please.',
        company=company.name,
        name=name,
        amount=amount,
        currency=currency,
        rest=rest,
    )
    found = steps.find(b, "crm_accounts_search", query=company.name)
    b.do("crm_deals_create", name=name, account_id=found["id"], amount=amount, currency=currency, **more)
