"""A task can be decided from what the agent sees, and what only looks like the right thing is another thing."""

import pytest

from mcp_bench.servers.saasworld.tasks import build, parse
from tests.support.saas import solved

pytestmark = pytest.mark.component


def test_the_call_about_a_debt_is_at_the_account_of_the_debtor() -> None:
    """The search for `Cedarline Aviation` also finds a company whose owner has that name in the address."""
    task = "finance-dunning-run.3.train.274"
    world = solved(task)
    (call,) = (change.after for change in world.state.changes() if change.collection == "crm.activities")
    account = world.state.find("crm.accounts", (call or {})["account_id"])
    assert account is not None and account["name"] in build(parse(task)).prompt
