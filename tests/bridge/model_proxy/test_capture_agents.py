"""Real agents solve a task while the model proxy captures their requests to a scripted endpoint."""

import json
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from mcp_bench.servers.saasworld import BENCHMARK
from tests.support.agents.node_clis import node_environ
from tests.support.model_endpoint.endpoint import ModelEndpoint
from tests.support.model_endpoint.script import script_from_reference
from tests.support.sample import sampled

pytestmark = pytest.mark.system

KEY = "dummy-key-0123456789"
TASK = "simple-candidate-stage.1.train.0"
DIALECTS = {
    "codex": "responses",
    "claude-code": "anthropic-messages",
    "gemini": "gemini",
    "qwen-code": "chat-completions",
    "opencode": "chat-completions",
    "chat": "chat-completions",
    "acp": "gemini",
}
Record = Callable[..., Any]


@pytest.fixture(scope="module")
def reference() -> dict[str, Any]:
    found = BENCHMARK.reference(TASK)
    assert found is not None
    return {"prompt": BENCHMARK.task(TASK).prompt, **found.model_dump()}


@pytest.fixture
def endpoint(reference: dict[str, Any]) -> Iterator[ModelEndpoint]:
    with ModelEndpoint([script_from_reference(reference["prompt"], reference)], api_key=KEY) as running:
        yield running


@pytest.fixture
def record(bench, endpoint: ModelEndpoint) -> Record:
    environ = node_environ(bench.home.parent)
    keys = dict.fromkeys(("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY"), KEY)

    def run(agent: str, *more: str, code: int = 0):
        bench.environ.update(PATH=environ["PATH"], **keys)
        url = endpoint.anthropic_url if agent in ("claude-code", "gemini", "acp") else endpoint.openai_url
        more = ("--agent-command", "gemini --acp", *more) if agent == "acp" else more
        return bench.run(
            "record", "--agent", agent, "--task", TASK, "--model", "scripted-1", "--base-url", url,
            "--timeout", "120", "--capture-llm", *more, code=code,
        )  # fmt: skip

    return run


@pytest.mark.parametrize("agent", sampled(DIALECTS, ("codex", "claude-code", "gemini", "chat")))
def test_captured_calls_equal_those_of_the_endpoint(
    bench, record: Record, endpoint: ModelEndpoint, reference: dict[str, Any], agent: str
) -> None:
    record(agent)
    (episode,) = bench.rows("select * from episodes")
    assert episode["invalid"] is None
    assert [grade["partial"] for grade in bench.grades()] == [1.0]
    calls = bench.rows("select * from model_calls where kind != 'other' order by id")
    # the order of concurrent requests may differ
    assert Counter((call["request"], call["response"]) for call in calls) == Counter(
        (request.raw.decode(), request.sent.decode()) for request in endpoint.requests
    )
    assert {call["dialect"] for call in calls} == {DIALECTS[agent]}
    assert all((call["outcome"], call["status"]) == ("ok", 200) for call in calls)
    total = Counter()
    for call in calls:
        assert call["started_us"] <= call["first_us"] <= call["ended_us"]
        total.update(json.loads(call["usage"]))
    sent = Counter(model_calls=len(endpoint.requests))
    for request in endpoint.requests:
        usage = request.usage
        sent.update(input_tokens=usage.input, output_tokens=usage.output, cached_tokens=usage.cached)
    assert total == sent
    turns = [call for call in calls if call["message"] is not None]
    assert len(turns) == len(reference["calls"]) + 1
    messages = bench.rows("select * from messages order by position")
    assert [messages[call["message"]]["role"] for call in turns] == ["assistant"] * len(turns)
    assert [call["message"] for call in turns] == [
        row["position"] for row in messages if row["role"] == "assistant"
    ]
    assert all("think first" in messages[call["message"]]["reasoning"] for call in turns)


@pytest.mark.parametrize("agent", sampled(DIALECTS, ("chat",)))
def test_no_byte_of_the_key_is_stored(bench, record: Record, agent: str) -> None:
    record(agent)  # the endpoint refuses other keys, so it received this one
    files = [path for path in bench.home.rglob("*") if path.is_file()]
    assert bench.rows("select count(*) n from model_calls")[0]["n"]
    assert not [path for path in files if KEY.encode() in path.read_bytes()]
