"""The search agent improves a target with a scripted proposer, over the wire and by every driver."""

import json
from pathlib import Path

import pytest

from mcp_bench.bridge.sandbox.engine import engines
from mcp_bench.plugins.own_clients.search import DRIVERS
from tests.support.bench_commands import Bench
from tests.support.improvement.small_task import REFERENCE, write_task
from tests.support.model_endpoint.endpoint import ModelEndpoint
from tests.support.model_endpoint.fault import Fault
from tests.support.model_endpoint.script import Script, Step
from tests.support.requirements import needs

BWRAP = engines()["bwrap"]
pytestmark = [pytest.mark.system, needs("bwrap", BWRAP.support().works, BWRAP.support().detail)]
KEY = "dummy-key-0123456789"
FIRST_LINE = "`solve(n)` returns the sum of the squares below n."


def searched(bench: Bench, folder: Path, answer: str, *options: str) -> dict[str, float]:
    script = Script(FIRST_LINE, (Step(text=answer),), without_tools=True)
    with ModelEndpoint([script], api_key=KEY) as endpoint:
        done = bench.run(
            "record", "--agent", "search", "--benchmark", "improve", "--path", folder, "--limit", "1",
            "--model", "scripted-1", "--base-url", endpoint.openai_url, "--json", *options,
        )  # fmt: skip
        found: dict[str, float] = json.loads(done.stdout)
        return {**found, "requests": len(endpoint.requests)}


@pytest.mark.parametrize(
    "driver",
    [pytest.param(name, marks=[] if name == "puct" else [pytest.mark.full]) for name in DRIVERS],
)
def test_a_driver_finds_what_the_model_proposes(bench: Bench, tmp_path: Path, driver: str) -> None:
    bench.environ["OPENAI_API_KEY"] = KEY
    folder = write_task(tmp_path)
    found = searched(bench, folder, f"So:\n```python\n{REFERENCE}```", "--agent-option", f"driver={driver}")
    assert found["partial"] > 0.5  # clocks of a busy machine can miss the last tenth
    made = [row["tool"] for row in bench.rows("select tool from calls order by id")]
    assert made == ["read", "read", "run", "write", "run", "submit"], "the same program is run once"


def test_gepa_ends_with_a_refused_request(bench: Bench, tmp_path: Path) -> None:
    """Its package would ask again and again until the attempt's time is over."""
    bench.environ["OPENAI_API_KEY"] = KEY
    fault = Fault(status=401, after=1)
    with ModelEndpoint([], api_key=KEY, fault=fault) as endpoint:
        done = bench.run(
            "record", "--agent", "search", "--benchmark", "improve", "--path", write_task(tmp_path), "--limit", "1",
            "--model", "scripted-1", "--base-url", endpoint.openai_url, "--json",
            "--agent-option", "driver=gepa", code=1,
        )  # fmt: skip
        assert len(endpoint.requests) <= 2
    assert json.loads(done.stdout)["invalid"] == 1


def test_answers_without_a_program_use_no_runs(bench: Bench, tmp_path: Path) -> None:
    bench.environ["OPENAI_API_KEY"] = KEY
    budget = ("--agent-option", "token_budget=20")
    found = searched(bench, write_task(tmp_path), "I cannot make it faster.", *budget)
    assert (found["strict"], found["partial"]) == (0.0, 0.0)
    assert found["requests"] <= 2, "a list of models, and one proposal: it uses the budget of tokens"
    assert [row["tool"] for row in bench.rows("select tool from calls order by id")] == [
        "read",
        "read",
        "run",
        "submit",
    ]
