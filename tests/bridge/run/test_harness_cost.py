"""`report --by agent` on two harnesses with one scripted model and the same tasks.

`chat` lets the model call several tools in a turn; `one-action` asks for one call a turn. The model is
the same script for both, and does what each harness asks of its turns.
"""

import json
from collections.abc import Iterator

import pytest

from mcp_bench.servers.saasworld import BENCHMARK
from tests.support.model_endpoint.endpoint import ModelEndpoint
from tests.support.model_endpoint.script import script_from_reference

pytestmark = pytest.mark.system

TASKS = (
    "sales-closed-deal.2.train.0",
    "marketing-campaign-budget.3.train.0",
    "simple-task-progress.1.train.0",
)
AGENTS = ("chat", "one-action")


@pytest.fixture
def endpoint() -> Iterator[ModelEndpoint]:
    scripts = [
        script_from_reference(
            BENCHMARK.task(task).prompt, BENCHMARK.reference(task).model_dump(), parallel=3, obedient=True
        )
        for task in TASKS
    ]
    with ModelEndpoint(scripts) as running:
        yield running


@pytest.mark.parametrize("provider", ["openai", pytest.param("anthropic", marks=pytest.mark.full)])
def test_one_action_per_turn_costs_more_for_the_same_score(
    bench, endpoint: ModelEndpoint, provider: str
) -> None:
    url = endpoint.openai_url if provider == "openai" else endpoint.anthropic_url
    chosen = [part for task in TASKS for part in ("--task", task)]
    sent = {}
    for agent in AGENTS:
        before = len(endpoint.requests)
        bench.run(
            "record", "--agent", agent, *chosen, "--model", "scripted", "--base-url", url, "--jobs", "2",
            "--agent-option", f"provider={provider}",
        )  # fmt: skip
        sent[agent] = [request.usage for request in endpoint.requests[before:] if request.usage]
    rows = {row["agent"]: row for row in json.loads(bench.run("report", "--by", "agent", "--json").stdout)}
    assert set(rows) == set(AGENTS)
    wanted = sum(len(BENCHMARK.reference(task).calls) for task in TASKS)
    for agent, row in rows.items():
        assert (row["episodes"], row["invalid"], row["partial"], row["strict"]) == (3, 0, 1.0, 1.0)
        assert (row["tool_calls"], row["failed_calls"]) == (wanted, 0)
        assert row["input_tokens"] == sum(usage.input for usage in sent[agent])
        assert row["output_tokens"] == sum(usage.output for usage in sent[agent])
    # one turn per call and one to finish, against the script's number of turns
    assert len(sent["one-action"]) == wanted + len(TASKS)
    turns = [-(-len(BENCHMARK.reference(task).calls) // 3) + 1 for task in TASKS]
    assert len(sent["chat"]) == sum(turns) < len(sent["one-action"])
    assert rows["chat"]["input_tokens"] < rows["one-action"]["input_tokens"]
    table = bench.run("report", "--by", "agent").stdout
    above, *lines = table.splitlines()
    assert above.startswith("isolation none")
    assert [line.split()[0] for line in lines] == ["agent", *AGENTS]
    for row in rows.values():
        assert f"{row['input_tokens']:,} / {row['output_tokens']:,}" in table
