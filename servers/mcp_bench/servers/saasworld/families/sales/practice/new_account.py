"""A company is added to the CRM; whoever owns another account owns it, too."""

from mcp_bench.servers.saasworld.apps.crm import INDUSTRIES
from mcp_bench.servers.saasworld.authoring import Builder, family, records, steps


@family(levels=(1,))
def new_account(b: Builder) -> None:
    known, new, city = b.company(), b.company(), b.city()
    owner, industry, tier = b.person(b.org), b.pick(INDUSTRIES), b.pick(("plus", "strategic"))
    records.account(b, known, domain=known.domain, city=b.city(), owner_email=owner.email)
    fields, what = b.pick(
        (
            ({"industry": industry}, f"a prospect in {industry}"),
            ({"status": "customer"}, "a customer already"),
            ({"domain": new.domain}, f"a prospect, mail domain {new.domain}"),
            ({"tier": tier}, f"a prospect for the {tier} tier"),
        )
    )
    b.background("crm", 16)
    b.request(
        "Please add {new} from {city} to the CRM, {what}. The owner is the same as for {known}.",
        "New account in the CRM: {new}, {city}, {what}. It belongs to whoever owns {known}.",
        "{new} in {city} is {what}. Can you create the account, with the owner of {known} as its owner?",
        "Whoever looks after {known} in the CRM gets a new account: {new}, {city}, {what}. Enter it please.",
        new=new.name,
        city=city,
        what=what,
        known=known.name,
    )
    found = steps.find(b, "crm_accounts_search", query=known.name)
    b.do("crm_accounts_create", name=new.name, city=city, owner_email=found["owner_email"], **fields)
