"""A deal is deleted; it is named by its name, or by its owner and stage."""

from mcp_bench.servers.saasworld.apps.crm import STAGES
from mcp_bench.servers.saasworld.authoring import Builder, family, records, steps

REASONS = (
    "it was a test",
    "it was never a real deal",
    "I entered it by mistake",
    "it is in the wrong system",
)


@family(levels=(1,))
def deal_removal(b: Builder) -> None:
    company, owner, why = b.company(), b.person(b.org), b.pick(REASONS)
    account = records.account(b, company, city=b.city(), domain=company.domain, owner_email=owner.email)
    stage, other = b.sample(STAGES, 2)
    same = {"owner_email": owner.email, "close_date": b.day(-40, 90), "amount": b.amount(2000, 60000, 250)}
    deal = records.deal(b, account, "new", b.today.year, stage=stage, **same)
    records.deal(b, account, "expansion", b.today.year, stage=other, **same)
    by_name = b.chance(0.5)
    b.background("crm", 16)
    b.request(
        "Please delete {one}: {why}.",
        "Can you remove {one} from the CRM? {Why}.",
        "{Why}, so {one} can be deleted. Please do that.",
        "Get rid of {one}, please. Do not just close it, it has to be gone: {why}.",
        "I do not want to see {one} any more, {why}. Delete it, thanks.",
        one=f'the deal "{deal["name"]}"' if by_name else f"the deal of {owner.email} in the stage {stage}",
        why=why,
        Why=f"{why[0].upper()}{why[1:]}",
    )
    if by_name:
        found = steps.find(b, "crm_deals_search", query=deal["name"])
    else:
        found = steps.find(b, "crm_deals_list", owner_email=owner.email, stage=stage)
    b.do("crm_deals_delete", id=found["id"])
