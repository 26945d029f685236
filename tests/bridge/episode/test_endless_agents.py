"""Real agents that never stop: their model keeps requesting calls, or never answers."""

from collections.abc import Callable, Iterator

import pytest

from tests.support.agents.node_clis import node_environ
from tests.support.agents.real_agents import REAL_AGENTS, agents
from tests.support.model_endpoint.endpoint import ModelEndpoint
from tests.support.model_endpoint.fault import Fault, Gate
from tests.support.model_endpoint.script import Script, ScriptedCall, Step

pytestmark = pytest.mark.system

KEY = "dummy-key-0123456789"
PROMPT = "Fill the page of colours."
NEVER_DONE = tuple(
    Step((ScriptedCall("write", {"key": key, "value": "cerulean"}),)) for key in ("sky", "sea", "eyes")
)


@pytest.fixture
def endpoint() -> Iterator[ModelEndpoint]:
    with ModelEndpoint([Script(PROMPT, NEVER_DONE, endless=True)], api_key=KEY) as running:
        yield running


@pytest.fixture
def record(bench, endpoint: ModelEndpoint) -> Callable[..., dict]:
    """Record the task with one of the real agents; return the episode."""
    keys = dict.fromkeys(("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY"), KEY)
    bench.environ.update(PATH=node_environ(bench.home.parent)["PATH"], **keys)

    def run(name: str, *more: str) -> dict:
        real = REAL_AGENTS[name]
        bench.run(
            "record", *real.command_line(), "--benchmark", "notebook", "--task", "colours",
            "--model", "scripted-1", "--base-url", real.address(endpoint), *more,
        )  # fmt: skip
        (episode,) = bench.rows("select * from episodes")
        return episode

    return run


@agents("gemini", "qwen-code", "opencode", "acp-codex", "acp-gemini", "acp-opencode")
def test_its_calls_are_counted(bench, record, name: str) -> None:
    episode = record(name, "--timeout", "120", "--max-calls", "4")
    assert (episode["termination"], episode["invalid"]) == ("max_calls", None)
    done = bench.rows("select arguments from calls where execution order by execution")
    assert len(done) == 4
    assert len(bench.grades()) == 1


@agents(
    "claude-code", "gemini", "opencode", "acp-codex", "acp-gemini", "acp-opencode", but=("qwen-code",)
)  # fmt: skip
def test_its_time_runs_out(bench, record, name: str) -> None:
    episode = record(name, "--timeout", "20" if name == "codex" else "40")  # the others start slowly
    assert (episode["termination"], episode["invalid"]) == ("timeout", None)
    assert bench.rows("select id from calls")
    assert len(bench.grades()) == 1


@pytest.mark.full
def test_an_agent_that_notices_its_own_loop_has_failed_by_itself(bench, record) -> None:
    episode = record("qwen-code", "--timeout", "240")
    assert (episode["termination"], episode["invalid"]) == ("crash", None)
    assert len(bench.rows("select id from calls")) > len(NEVER_DONE)
    assert len(bench.grades()) == 1


@agents(*REAL_AGENTS)  # all: another test waits for a timeout of a real agent, 40 seconds
def test_a_model_that_never_answers_is_waited_for(bench, record, endpoint: ModelEndpoint, name: str) -> None:
    """That is not a failure: the model could be slow."""
    endpoint.fault = Fault(gate=Gate(), after=1)
    episode = record(name, "--timeout", "40")
    assert (episode["termination"], episode["invalid"]) == ("timeout", None)
    assert len(bench.rows("select id from calls")) == 1
