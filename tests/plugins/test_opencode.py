"""The plugin of opencode, with the real program."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from time import monotonic

import pytest
from hypothesis import given, settings

from mcp_bench.plugins.contracts import LaunchRequest, McpServer
from mcp_bench.plugins.opencode.agent import OpenCode
from mcp_bench.servers.errors import BenchError, WrongUseError
from tests.support.agents.agent_attempt import Attempt
from tests.support.agents.node_clis import NODE, node_environ
from tests.support.desk.desk_script import JOURNAL, PROMPT, check_conversation, check_usage, script
from tests.support.model_endpoint.endpoint import ModelEndpoint
from tests.support.model_endpoint.fault import Fault, Gate
from tests.support.model_endpoint.script import Script, ScriptedCall, Step
from tests.support.spoiling import CHANGES, Changes, read_spoiled

Make = Callable[..., Attempt]


def test_it_works_through_the_script_and_tells_all_of_it(
    attempt: Make, endpoint: ModelEndpoint, key: str
) -> None:
    work = attempt(OpenCode())
    transcript = work.run(endpoint.openai_url)
    assert work.journal == JOURNAL, work.output.stderr.read_text()
    check_conversation(transcript)
    check_usage(transcript, endpoint)
    assert transcript.fault is None
    assert endpoint.unknown == []
    tools = {"desk_add", "desk_desk_tidy", "desk_leave", "desk_meet", "desk_note"}
    assert [set(request.tools) for request in endpoint.requests] == [tools] * 4  # no title is asked for
    assert not (work.home / ".npm").exists()  # nothing is installed at the start
    kept = [path for path in work.folder.rglob("*") if path.is_file() and key.encode() in path.read_bytes()]
    assert kept == []


def test_with_all_tools_its_shell_runs_unasked(attempt: Make, endpoint: ModelEndpoint) -> None:
    shell = ScriptedCall("bash", {"command": "echo hi > there", "description": "Say hi"})
    endpoint.scripts = [
        Script(PROMPT, (Step((shell,)), Step((ScriptedCall("add", {"a": 1, "b": 2}),)), Step(text="Done.")))
    ]
    work = attempt(OpenCode())
    transcript = work.run(endpoint.openai_url, tools="all")
    assert (work.workdir / "there").read_text() == "hi\n"
    assert work.journal == [("add", {"a": 1, "b": 2})]
    calls = [call.function.name for message in transcript.messages for call in message.tool_calls]
    assert (calls, transcript.answer, transcript.fault) == (["bash", "add"], "Done.", None)


def test_an_endpoint_that_refuses_is_a_fault(attempt: Make, endpoint: ModelEndpoint) -> None:
    endpoint.fault = Fault(status=401)
    transcript = attempt(OpenCode()).run(endpoint.openai_url)
    assert transcript.fault is not None
    assert transcript.fault.kind == "endpoint_error"
    assert "401" in transcript.fault.detail
    assert transcript.answer is None


def wait_for_step(work: Attempt) -> None:
    """Wait until it has told of a whole step, which it does a moment after it has begun the next one."""
    deadline = monotonic() + 40
    while b"step_finish" not in work.output.stdout.read_bytes() and monotonic() < deadline:
        pass


@pytest.mark.parametrize(
    "fault",
    [
        {"status": 500},
        pytest.param({"status": 429}, marks=pytest.mark.full),
        pytest.param({"cut": 3}, marks=pytest.mark.full),
    ],
)
def test_an_endpoint_that_keeps_failing_is_a_fault_once_it_is_ended(
    attempt: Make, endpoint: ModelEndpoint, fault: dict
) -> None:
    """It tries again for as long as it is left to, and says nothing of it on stdout."""
    first, again = Gate(), Gate()
    endpoint.fault = Fault(gate=first, after=1, **fault)
    work = attempt(OpenCode())
    process = work.start(endpoint.openai_url)
    failed = first.arrived.wait(80)
    wait_for_step(work)
    endpoint.fault = Fault(gate=again)
    first.release.set()
    retried = again.arrived.wait(80)
    transcript = work.finish(process, stop=True)
    assert (failed, retried) == (True, True), work.output.stderr.read_text()
    assert transcript.fault is not None
    assert transcript.fault.kind == "endpoint_error"
    assert [m.content for m in transcript.messages][:3] == ["Adding.", "3", "7"]
    assert transcript.answer is None


def test_one_that_is_ended_while_its_model_thinks_is_not(attempt: Make, endpoint: ModelEndpoint) -> None:
    gate = Gate()
    endpoint.fault = Fault(gate=gate, after=1)
    work = attempt(OpenCode())
    process = work.start(endpoint.openai_url)
    arrived = gate.arrived.wait(80)
    wait_for_step(work)
    transcript = work.finish(process, stop=True)
    assert arrived, work.output.stderr.read_text()
    assert (transcript.answer, transcript.fault) == (None, None)
    sent = endpoint.requests[0].usage
    assert sent is not None
    assert transcript.usage is not None
    assert (transcript.usage.input_tokens, transcript.usage.model_calls) == (sent.input, 1)


def test_a_full_context_is_the_agents_own_failure(attempt: Make, endpoint: ModelEndpoint) -> None:
    endpoint.fault = Fault(status=400, code="context_length_exceeded", after=1)
    work = attempt(OpenCode())
    transcript = work.run(endpoint.openai_url)
    assert (transcript.fault, transcript.answer) == (None, None)
    assert work.journal == JOURNAL[:2]


def test_a_server_that_does_not_start_is_a_fault(attempt: Make, endpoint: ModelEndpoint) -> None:
    work = attempt(OpenCode())
    work.server = McpServer("desk", ("/nowhere/at-all",), ("add",))
    transcript = work.run(endpoint.openai_url)
    assert transcript.fault is not None
    assert transcript.fault.kind == "server_not_connected"


def test_a_tool_that_is_not_approved_is_a_fault(attempt: Make, endpoint: ModelEndpoint) -> None:
    def ask_first(home: Path) -> None:
        path = home / "opencode.json"
        config = json.loads(path.read_text())
        assert config["permission"]["desk_*"] == "allow"
        config["permission"]["desk_*"] = "ask"
        path.write_text(json.dumps(config))

    work = attempt(OpenCode())
    transcript = work.run(endpoint.openai_url, spoil=ask_first)
    assert work.journal == []
    assert transcript.fault is not None
    assert (transcript.fault.kind, transcript.fault.detail) == ("approval_needed", "denied: add")


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Attempt:
    """An attempt that is over, to spoil copies of what it left."""
    work = Attempt(tmp_path_factory.mktemp("opencode") / "attempt", OpenCode())
    with ModelEndpoint([script()]) as endpoint:
        check_conversation(work.run(endpoint.openai_url))
    return work


def test_calls_are_in_the_models_order_whichever_ends_first(finished: Attempt, tmp_path: Path) -> None:
    events = finished.output.stdout.read_text().splitlines()
    first, second = [number for number, event in enumerate(events) if '"desk_add"' in event]
    events[first], events[second] = events[second], events[first]
    stdout = tmp_path / "stdout"
    stdout.write_text("\n".join(events))
    check_conversation(finished.agent.read(replace(finished.output, stdout=stdout), finished.server))


@settings(max_examples=60, deadline=None)
@given(changes=CHANGES)
def test_reading_survives_whatever_is_left(finished: Attempt, changes: Changes) -> None:
    transcript = read_spoiled(finished.agent, finished.output, finished.server, changes)
    assert len(transcript.messages) <= 20


def test_the_version_is_the_pinned_one(tmp_path: Path) -> None:
    pinned = json.loads((NODE / "package.json").read_text())["dependencies"]["opencode-ai"]
    found = OpenCode().find(node_environ(tmp_path))
    assert (found.version, Path(found.executable).name) == (pinned, "opencode")


KEYS = {"ANTHROPIC_API_KEY": "a", "GEMINI_API_KEY": "g", "OPENROUTER_API_KEY": "r", "SECRET": "s"}


@pytest.mark.parametrize(
    ("model", "handed_in"),
    [
        ("anthropic/claude-x", {"ANTHROPIC_API_KEY"}),
        ("google/gemini-x", {"GEMINI_API_KEY"}),
        ("somebody/else", {"ANTHROPIC_API_KEY", "GEMINI_API_KEY", "OPENROUTER_API_KEY"}),
        (None, {"ANTHROPIC_API_KEY", "GEMINI_API_KEY", "OPENROUTER_API_KEY"}),
        ("opencode/free", set()),
    ],
)
def test_it_is_handed_the_login_of_its_models_provider(
    attempt: Make, model: str | None, handed_in: set[str]
) -> None:
    launch = OpenCode().prepare(request_of(attempt(OpenCode(), environ=KEYS), model))
    assert {name for name in launch.env if name in KEYS} == handed_in


def test_without_a_login_it_is_not_started(attempt: Make) -> None:
    work = attempt(OpenCode(), environ={"GEMINI_API_KEY": "of another provider"})
    with pytest.raises(BenchError, match="set ANTHROPIC_API_KEY or OPENCODE_AUTH_CONTENT"):
        OpenCode().prepare(request_of(work, "anthropic/claude-x"))


def test_an_endpoint_needs_a_model(attempt: Make) -> None:
    with pytest.raises(WrongUseError, match="--model"):
        attempt(OpenCode()).start("http://127.0.0.1:9/v1", model=None)


def request_of(work: Attempt, model: str | None) -> LaunchRequest:
    return LaunchRequest(
        prompt="x",
        home=work.home,
        workdir=work.workdir,
        server=work.server,
        installation=work.agent.find(work.environ),
        model=model,
        environ=work.environ,
    )
