"""Prices of models that play a role: read from a file, kept with the run, shown, and a limit."""

import json
from collections.abc import Iterator
from contextlib import aclosing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_bench.bridge.roles.episode_host import EpisodeHost
from mcp_bench.bridge.roles.limits import RoleLimits
from mcp_bench.bridge.roles.models import RoleModel, Roles
from mcp_bench.bridge.roles.prices import Price, read_prices
from mcp_bench.recorder.store.asked import Asked
from mcp_bench.recorder.trajectory import Usage
from mcp_bench.servers.contracts import ChatMessage, ToolSpec
from mcp_bench.servers.errors import HostError, WrongUseError
from tests.support.model_endpoint.endpoint import ModelEndpoint
from tests.support.model_endpoint.script import Script, ScriptedCall, Step

pytestmark = pytest.mark.system

KEY = "sk-of-the-role-5678"
OFFERS = [Script("They offer", (Step((ScriptedCall("offer", {"price": 9}),)),))]
WORK = """
server = Server()
server.connect()
print(server.call("offer", price=5))
"""
PRICES = "opponent-1: {input: 2.5, cached-input: 0.5, output: 10}\n"
COUNTS = st.integers(0, 10**7)
DOLLARS = st.floats(0, 1000)


@pytest.fixture
def endpoint() -> Iterator[ModelEndpoint]:
    with ModelEndpoint(OFFERS, api_key=KEY) as found:
        yield found


def play(bench, endpoint, agent: str, *more: str, code: int | None = 0):
    bench.environ |= {"MCP_BENCH_OPPONENT_API_KEY": KEY}
    return bench.run(
        "record", "--agent", "script", "--agent-option", agent, "--benchmark", "haggle", "--task", "opponent",
        "--opponent-model", "opponent-1", "--opponent-base-url", endpoint.openai_url, *more, code=code,
    )  # fmt: skip


@given(COUNTS, COUNTS, COUNTS, DOLLARS, DOLLARS, DOLLARS)
def test_a_request_costs_the_sum_of_its_tokens(
    fresh: int, cached: int, out: int, price: float, again: float, answer: float
) -> None:
    usage = Usage(input_tokens=fresh + cached, cached_tokens=cached, output_tokens=out)
    full = Price(input=price, output=answer)
    cost = full.of(usage)
    assert cost == pytest.approx(((fresh + cached) * price + out * answer) / 1e6)
    cheaper = Price(input=price, output=answer, cached_input=again).of(usage)
    assert cost is not None and cheaper == pytest.approx(cost + cached * (again - price) / 1e6, abs=1e-9)
    assert full.of(Usage(output_tokens=out)) is full.of(None) is None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("m: {input: 1}", "prices.yaml:1: m.output: Field required"),
        ("m:\n  input: 1\n  output: -2\n", "prices.yaml:3: m.output: "),
        ("m: {input: cheap, output: 1}", "m.input"),
        ("m: {input: 1, output: 1, outputs: 1}", "m.outputs"),
        ("m: 3", "prices.yaml:1: m: "),
        ("m: {input: 1, output: .inf}", "m.output"),
        ("- m", r"the file has no keys: it must be a mapping$"),
    ],
)
def test_a_price_that_is_none_is_named(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "prices.yaml").write_text(text)
    with pytest.raises(WrongUseError, match=words.replace(".", r"\.")):
        read_prices(tmp_path / "prices.yaml")


def test_prices_are_stored_shown_and_count(bench, endpoint, script, tmp_path: Path) -> None:
    prices = tmp_path / "prices.yaml"
    prices.write_text(PRICES + "another: {input: 1, output: 1}\n")
    play(bench, endpoint, script(WORK), "--prices", str(prices), "--max-cost", "5", "--repeat", "2")
    prices.unlink()  # the run has its own copy
    rows = [json.loads(row["usage"]) for row in bench.rows("select usage from asked", database="grades.db")]
    assert len(rows) == 2
    for row in rows:
        fresh = row["input_tokens"] - row["cached_tokens"]
        assert row["cost_usd"] == pytest.approx(
            (fresh * 2.5 + row["cached_tokens"] * 0.5 + row["output_tokens"] * 10) / 1e6
        )
    settings = json.loads(bench.rows("select settings from runs")[0]["settings"])
    assert set(settings["role_prices"]) == {"opponent-1"}
    total = sum(row["cost_usd"] for row in rows)
    (row,) = json.loads(bench.run("report", "--json").stdout)
    assert row["roles_cost_usd"] == pytest.approx(total) and row["cost_usd"] is None
    assert "roles" in bench.run("report").stdout
    episode = bench.rows("select id from episodes order by id")[0]["id"]
    assert f"1 request, {rows[0]['input_tokens']:,} tokens in" in bench.run("show", episode).stdout
    (asked,) = json.loads(bench.run("show", episode, "--json").stdout)["asked"]
    assert asked["cost_usd"] == pytest.approx(rows[0]["cost_usd"])
    ended = bench.run("record", "--resume", bench.run_folder.name, "--max-cost", "6").stderr
    assert "strict 2/2" in ended or "0 episodes" in ended


def test_a_role_that_costs_too_much_is_ended(bench, endpoint, script, tmp_path: Path) -> None:
    prices = tmp_path / "prices.yaml"
    prices.write_text(PRICES)
    twice = script(WORK + 'print(server.call("offer", price=6))\n')
    limited = ("--prices", str(prices), "--role-limit", "cost=0.0000001")
    play(bench, endpoint, twice, *limited, code=1)
    (episode,) = bench.rows("select invalid, invalid_detail from episodes")
    assert (
        episode["invalid"] == "role_limit"
        and "$1e-07 are the limit of an episode" in episode["invalid_detail"]
    )
    assert len(bench.rows("select * from asked", database="grades.db")) == 1


@pytest.mark.anyio
@pytest.mark.parametrize("begun", [True, False])
async def test_a_limit_before_the_agent_begins_is_not_its_doing(endpoint, begun: bool) -> None:
    """A world can ask while it opens: no agent can bring that about."""
    model = RoleModel("opponent", "opponent-1", endpoint.openai_url, KEY)
    stored: list[Asked] = []
    roles = Roles({"opponent": model}, RoleLimits(cost=1e-9), {"opponent-1": Price(input=1, output=1)})
    host = EpisodeHost(roles, seed=0, store=stored.append)
    async with aclosing(host):
        said = [ChatMessage(role="user", content="They offer 3.")]
        await host.ask(
            "opponent", said, [ToolSpec(name="offer", description="", input_schema={"type": "object"})]
        )
        if begun:
            host.begin()
        with pytest.raises(HostError):
            await host.ask("opponent", said)
        failure = host.take_failure()
        assert failure is not None and (failure.reason, failure.agents_doing) == ("role_limit", begun)
        assert [one.usage and one.usage.cost_usd for one in stored] == [host.cost]


def test_a_limit_of_cost_needs_a_cost(bench, endpoint, script) -> None:
    play(bench, endpoint, script(WORK), "--role-limit", "cost=1", "--retries", "0", code=1)
    (episode,) = bench.rows("select invalid, invalid_detail from episodes")
    assert episode["invalid"] == "role_failed" and "name it with --prices FILE" in episode["invalid_detail"]


def test_wrong_prices_refuse_the_run(bench, endpoint, script, tmp_path: Path) -> None:
    prices = tmp_path / "prices.yaml"
    prices.write_text("opponent-2: {input: 1, output: 1}\n")
    refused = play(bench, endpoint, script(WORK), "--prices", str(prices), code=2).stderr
    assert "has no price of 'opponent-1' (did you mean opponent-2?)" in refused
    for limit in ("cost=0", "cost=-1", "cost=nan", "requests=1.5"):
        assert "is not a" in play(bench, endpoint, script(WORK), "--role-limit", limit, code=2).stderr
    assert not (bench.home / "runs").exists() or not list((bench.home / "runs").iterdir())


@pytest.mark.parametrize("option", [("--prices", "prices.yaml"), ("--role-limit", "cost=1")])
def test_what_is_about_no_model_is_refused(bench, tmp_path: Path, option: tuple[str, str]) -> None:
    (tmp_path / "prices.yaml").write_text(PRICES)
    given = [str(tmp_path / one) if one.endswith(".yaml") else one for one in option]
    refused = bench.run("record", "--agent", "noop", "--benchmark", "counter", *given, code=2).stderr
    assert f"{option[0]} is about models that play a role, and no role has one" in refused
    assert "--user-model" in refused
    assert not (bench.home / "runs").exists() or not list((bench.home / "runs").iterdir())
