"""A task can be decided from what the agent sees, and what only looks like the right thing is another thing."""

from datetime import UTC, datetime

import pytest

from mcp_bench.servers.saasworld.tasks import build, parse
from tests.support.saas import opened, solved

pytestmark = pytest.mark.component


def test_the_call_about_a_debt_is_at_the_account_of_the_debtor() -> None:
    """The search for `Cedarline Aviation` also finds a company whose owner has that name in the address."""
    task = "finance-dunning-run.3.train.274"
    world = solved(task)
    (call,) = (change.after for change in world.state.changes() if change.collection == "crm.activities")
    account = world.state.find("crm.accounts", (call or {})["account_id"])
    assert account is not None and account["name"] in build(parse(task)).prompt


@pytest.mark.parametrize("number", range(6))
def test_a_request_that_counts_days_says_what_day_it_is(number: int) -> None:
    built = build(parse(f"support-return-request.2.test.{number}"))
    today = datetime.fromtimestamp(built.now, UTC).date()
    assert today.isoformat() in built.prompt


def test_a_sibling_of_a_campaign_does_not_have_its_name() -> None:
    """Meetings with the campaign's name in the title are cancelled; the sibling's must stay."""
    task = "marketing-campaign-closeout.5.train.98"
    weekly = [row["title"] for row in opened(task).state.rows("calendar.events") if "weekly" in row["title"]]
    own = [title for title in weekly if title.removesuffix(" weekly") in build(parse(task)).prompt]
    (name,) = (title.removesuffix(" weekly") for title in own)
    assert [title for title in weekly if name in title] == own and len(weekly) > 1


@pytest.mark.parametrize("drawn", ["3.train.424", "4.train.509", "4.dev.309"])
def test_each_known_error_has_a_code_of_its_own(drawn: str) -> None:
    state = opened(f"support-bug-triage.{drawn}").state
    now = max(
        row["name"] for row in state.rows("projects.projects") if row["name"].startswith("Known errors")
    )
    (project,) = (row["id"] for row in state.rows("projects.projects") if row["name"] == now)
    codes = [
        row["title"].partition(":")[0]
        for row in state.rows("projects.tasks")
        if row["project_id"] == project and row["title"].startswith("E-")
    ]
    assert len(codes) > 1 and sorted(set(codes)) == sorted(codes)
