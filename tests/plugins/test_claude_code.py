"""The plugin of Claude Code, with the real program."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings

from mcp_bench.plugins.claude_code import agent as claude_code
from mcp_bench.plugins.claude_code.agent import ClaudeCode
from mcp_bench.plugins.contracts import Launch, LaunchRequest, McpServer
from mcp_bench.servers.errors import BenchError, MissingDependencyError
from tests.support.agents.agent_attempt import Attempt
from tests.support.agents.node_clis import NODE, node_environ
from tests.support.desk.desk_script import JOURNAL, PROMPT, check_conversation, check_usage, script
from tests.support.model_endpoint.endpoint import ModelEndpoint
from tests.support.model_endpoint.fault import Fault, Gate
from tests.support.model_endpoint.script import Script, ScriptedCall, Step
from tests.support.sample import sampled
from tests.support.spoiling import CHANGES, Changes, read_spoiled

Make = Callable[..., Attempt]
AT_ONCE = {"max_retries": "0"}


def test_it_works_through_the_script_and_tells_all_of_it(
    attempt: Make, endpoint: ModelEndpoint, key: str
) -> None:
    work = attempt(ClaudeCode())
    transcript = work.run(endpoint.anthropic_url)
    assert work.journal == JOURNAL, work.output.stderr.read_text()
    check_conversation(transcript)
    check_usage(transcript, endpoint)
    assert (transcript.model, transcript.fault) == ("scripted", None)
    assert transcript.usage is not None
    assert transcript.usage.cost_usd is None  # nobody knows this model's price
    assert endpoint.unknown == []
    kept = [path for path in work.folder.rglob("*") if path.is_file() and key.encode() in path.read_bytes()]
    assert kept == []


def test_the_cost_of_a_model_with_a_price_is_told(attempt: Make, endpoint: ModelEndpoint) -> None:
    transcript = attempt(ClaudeCode()).run(endpoint.anthropic_url, model="claude-sonnet-4-5")
    assert transcript.model == "claude-sonnet-4-5"
    check_usage(transcript, endpoint)
    usage = transcript.usage
    assert usage is not None
    assert usage.input_tokens is not None
    assert usage.output_tokens is not None
    assert usage.cached_tokens is not None
    # dollars for a million tokens: 3 in, 0.30 from the cache, 15 out
    plain = usage.input_tokens - usage.cached_tokens
    price = (3 * plain + 0.3 * usage.cached_tokens + 15 * usage.output_tokens) / 1e6
    assert usage.cost_usd == pytest.approx(price)


def test_only_the_servers_tools_are_offered(attempt: Make, endpoint: ModelEndpoint) -> None:
    call = ScriptedCall("Bash", {"command": "touch made", "description": "make a file"})
    endpoint.scripts = [Script(PROMPT, (Step((call,)), Step(text="Done.")))]
    work = attempt(ClaudeCode())
    transcript = work.run(endpoint.anthropic_url)
    offered = [name for request in endpoint.requests for name in request.tools]
    assert offered
    assert all(name.startswith("mcp__desk__") for name in offered)
    assert list(work.workdir.iterdir()) == []
    assert (transcript.answer, transcript.fault) == ("Done.", None)


def test_with_all_tools_its_shell_runs_unasked(attempt: Make, endpoint: ModelEndpoint) -> None:
    steps = (
        Step((ScriptedCall("Bash", {"command": "echo hello > made", "description": "make a file"}),)),
        Step((ScriptedCall("WebFetch", {"url": "http://127.0.0.1:9/", "prompt": "look"}),)),
        Step((ScriptedCall("add", {"a": 1, "b": 2}),)),
        Step(text="Done."),
    )
    endpoint.scripts = [Script(PROMPT, steps)]
    work = attempt(ClaudeCode())
    transcript = work.run(endpoint.anthropic_url, tools="all", model="claude-sonnet-4-5")
    assert (work.workdir / "made").read_text() == "hello\n"
    assert work.journal == [("add", {"a": 1, "b": 2})]
    assert not {"WebFetch", "ToolSearch"} & set(endpoint.requests[0].tools)
    names = [call.function.name for message in transcript.messages for call in message.tool_calls]
    assert (names, transcript.fault) == (["Bash", "WebFetch", "add"], None)


def test_a_tool_that_is_hidden_behind_a_search_is_found(
    attempt: Make, endpoint: ModelEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As it has it by itself, beside its own tools. What was found is called and told like any other."""
    monkeypatch.setitem(claude_code.FIXED, "ENABLE_TOOL_SEARCH", "true")
    search = ScriptedCall("ToolSearch", {"query": "select:mcp__desk__add", "max_results": 1})
    add = ScriptedCall("add", {"a": 1, "b": 2})
    endpoint.scripts = [Script(PROMPT, (Step((search,)), Step((add,)), Step(text="Done.")))]
    work = attempt(ClaudeCode())
    transcript = work.run(endpoint.anthropic_url, tools="all", model="claude-sonnet-4-5")
    offered = ["mcp__desk__add" in request.tools for request in endpoint.requests]
    assert offered == [False, True, True]
    assert work.journal == [("add", {"a": 1, "b": 2})]
    names = [call.function.name for message in transcript.messages for call in message.tool_calls]
    assert (names, transcript.answer, transcript.fault) == (["ToolSearch", "add"], "Done.", None)


@pytest.mark.parametrize(
    "prompt",
    sampled(("/compact the list, then add.", "--help me to add.", "@work/x, add."), ["--help me to add."]),
)
def test_a_prompt_is_never_taken_for_something_else(
    attempt: Make, endpoint: ModelEndpoint, prompt: str
) -> None:
    endpoint.scripts = [script(prompt)]
    work = attempt(ClaudeCode(), prompt=prompt)
    check_conversation(work.run(endpoint.anthropic_url))
    assert work.journal == JOURNAL


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (Fault(status=401), "401"),
        (Fault(status=429, after=1), "429"),
        (Fault(status=500), "500"),
        (Fault(cut=3, after=1), "API Error"),
    ],
)
def test_an_endpoint_that_fails_is_a_fault(
    attempt: Make, endpoint: ModelEndpoint, fault: Fault, words: str
) -> None:
    endpoint.fault = fault
    work = attempt(ClaudeCode())
    transcript = work.run(endpoint.anthropic_url, options=AT_ONCE)
    assert transcript.fault is not None
    assert transcript.fault.kind == "endpoint_error"
    assert words in transcript.fault.detail
    assert (transcript.answer, len(work.journal)) == (None, 2 * fault.after)


def test_an_endpoint_that_recovers_is_none(attempt: Make, endpoint: ModelEndpoint) -> None:
    endpoint.fault = Fault(status=500, first=1)
    transcript = attempt(ClaudeCode()).run(endpoint.anthropic_url)
    assert transcript.fault is None
    check_conversation(transcript)
    check_usage(transcript, endpoint)


def test_an_endpoint_that_fails_until_the_end_is_a_fault(attempt: Make, endpoint: ModelEndpoint) -> None:
    """The agent is ended while it waits to try again, as it is at a timeout."""
    endpoint.fault = Fault(status=529, message="overloaded")
    work = attempt(ClaudeCode())
    process = work.start(endpoint.anthropic_url)
    with work.output.stdout.open() as events:
        while process.poll() is None and '"api_retry"' not in events.readline():
            pass
    process.kill()
    transcript = work.finish(process)
    assert '"type":"result"' not in work.output.stdout.read_text()
    assert transcript.fault is not None
    assert transcript.fault.kind == "endpoint_error"
    assert "529" in transcript.fault.detail


def test_a_full_context_is_the_agents_own_failure(attempt: Make, endpoint: ModelEndpoint) -> None:
    message = "prompt is too long: 210000 tokens > 200000 maximum"
    endpoint.fault = Fault(status=400, message=message, after=1)
    work = attempt(ClaudeCode())
    transcript = work.run(endpoint.anthropic_url, options=AT_ONCE)
    assert (transcript.fault, transcript.answer) == (None, None)
    assert work.journal == JOURNAL[:2]


def test_a_login_that_is_taken_away_is_a_fault(attempt: Make, endpoint: ModelEndpoint) -> None:
    work = attempt(ClaudeCode())
    work.agent.prepare = without_key(work.agent.prepare)  # type: ignore[method-assign]
    transcript = work.run(endpoint.anthropic_url)
    assert transcript.fault is not None
    assert transcript.fault.kind == "login_missing"


def without_key(prepare: Callable[..., Launch]) -> Callable[..., Launch]:
    def prepared(request: LaunchRequest) -> Launch:
        launch = prepare(request)
        env = {name: value for name, value in launch.env.items() if name != "ANTHROPIC_API_KEY"}
        return replace(launch, env=env)

    return prepared


def test_a_server_that_does_not_start_is_a_fault(attempt: Make, endpoint: ModelEndpoint) -> None:
    work = attempt(ClaudeCode())
    work.server = McpServer("desk", ("/nowhere/at-all",), ("add",))
    transcript = work.run(endpoint.anthropic_url)
    assert transcript.fault is not None
    assert (transcript.fault.kind, transcript.fault.detail) == ("server_not_connected", "desk: failed")


def test_a_tool_that_is_denied_is_a_fault(attempt: Make, endpoint: ModelEndpoint) -> None:
    work = attempt(ClaudeCode())
    command = work.server.command
    work.server = McpServer("desk", command, ("note", "desk.tidy"))
    process = work.start(endpoint.anthropic_url)
    work.server = McpServer("desk", command, ("add", "note", "desk.tidy"))
    transcript = work.finish(process)
    assert (work.journal, transcript.answer) == ([("desk.tidy", {})], "3 and 7.")
    assert transcript.fault is not None
    assert (transcript.fault.kind, transcript.fault.detail) == ("approval_needed", "denied: add")


def test_what_it_did_until_it_was_ended_is_told(attempt: Make, endpoint: ModelEndpoint) -> None:
    gate = Gate()
    endpoint.fault = Fault(gate=gate, after=1)
    work = attempt(ClaudeCode())
    process = work.start(endpoint.anthropic_url)
    arrived = gate.arrived.wait(60)
    transcript = work.finish(process, stop=True)
    assert arrived, work.output.stderr.read_text()
    assert [m.role for m in transcript.messages] == ["assistant", "tool", "tool"]
    assert (transcript.answer, transcript.fault) == (None, None)
    sent = endpoint.requests[0].usage
    assert sent is not None
    usage = transcript.usage
    assert usage is not None
    assert (usage.input_tokens, usage.output_tokens, usage.model_calls) == (sent.input, sent.output, 1)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Attempt:
    """An attempt that is over, to spoil copies of what it left."""
    work = Attempt(tmp_path_factory.mktemp("claude") / "attempt", ClaudeCode())
    with ModelEndpoint([script()]) as endpoint:
        check_conversation(work.run(endpoint.anthropic_url))
    return work


@settings(max_examples=60, deadline=None)
@given(changes=CHANGES)
def test_reading_survives_whatever_is_left(finished: Attempt, changes: Changes) -> None:
    transcript = read_spoiled(finished.agent, finished.output, finished.server, changes)
    assert len(transcript.messages) <= 20


def test_a_program_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(MissingDependencyError, match="npm install -g @anthropic-ai/claude-code"):
        ClaudeCode().find({"PATH": str(tmp_path)})


def test_the_version_is_the_pinned_one(tmp_path: Path) -> None:
    pinned = json.loads((NODE / "package.json").read_text())["dependencies"]["@anthropic-ai/claude-code"]
    found = ClaudeCode().find(node_environ(tmp_path))
    assert (found.version, Path(found.executable).name) == (pinned, "claude")


def test_the_users_own_endpoint_is_used(attempt: Make, endpoint: ModelEndpoint, key: str) -> None:
    work = attempt(
        ClaudeCode(), environ={"ANTHROPIC_API_KEY": key, "ANTHROPIC_BASE_URL": endpoint.anthropic_url}
    )
    check_conversation(work.run(None))


def test_without_a_login_it_is_not_started(attempt: Make) -> None:
    with pytest.raises(BenchError, match="ANTHROPIC_API_KEY or CLAUDE_CODE_OAUTH_TOKEN"):
        attempt(ClaudeCode(), environ={"OPENAI_API_KEY": "another"}).start(None)
