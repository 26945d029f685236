"""Agents over ACP: real ones on a scripted model endpoint, and a stand-in for rare behaviour."""

import json
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcp_bench.plugins.acp.agent import Acp, AcpAgent
from mcp_bench.plugins.acp.profiles import profile_of
from mcp_bench.plugins.acp.session import plus
from mcp_bench.plugins.contracts import Installation, Launch, LaunchRequest, Transcript
from mcp_bench.plugins.own_clients import environment
from mcp_bench.recorder.trajectory import Usage
from mcp_bench.servers.errors import BenchError, MissingDependencyError, WrongUseError
from tests.plugins.conftest import USER, Finished
from tests.support import SUPPORT
from tests.support.agents.agent_attempt import Attempt
from tests.support.agents.agent_cases import KEY
from tests.support.agents.node_clis import NODE, node_environ
from tests.support.desk.desk_script import JOURNAL, check_conversation, check_usage, script
from tests.support.model_endpoint.endpoint import ModelEndpoint
from tests.support.model_endpoint.fault import Fault, Gate
from tests.support.processes.forked import module_command
from tests.support.spoiling import CHANGES, Changes, read_spoiled

pytestmark = pytest.mark.system

Make = Callable[..., Attempt]
STARTED = (sys.executable, "-I", "-S", str(SUPPORT / "agents" / "acp_stand_in.py"))
"""The stand-in without its actions. It needs the standard library only."""
REAL = ("opencode acp", "codex-acp", "gemini --acp")


def url(endpoint: ModelEndpoint, command: str) -> str:
    return endpoint.gemini_url if command.startswith("gemini") else endpoint.openai_url


FinishedOver = Callable[[str], Finished]


@pytest.fixture(scope="module")
def finished_over(tmp_path_factory: pytest.TempPathFactory) -> FinishedOver:
    """Return the finished attempt of a real agent. Each is launched once; tests must not change it."""

    @cache
    def finished(command: str) -> Finished:
        work = Attempt(tmp_path_factory.mktemp("acp") / "attempt", Acp(), environ=USER)
        with ModelEndpoint([script()], api_key=KEY) as endpoint:
            return Finished(work, work.run(url(endpoint, command), options={"command": command}), endpoint)

    return finished


@pytest.mark.parametrize(
    "command",
    # the other two speak the same protocol; opencode takes four times as long to start
    [pytest.param(command, marks=[pytest.mark.full] * (command == "opencode acp")) for command in REAL],
)
def test_a_real_agent_works_through_the_script(finished_over: FinishedOver, command: str) -> None:
    done = finished_over(command)
    work, transcript, endpoint = done.work, done.transcript.model_copy(deep=True), done.endpoint
    assert work.journal == JOURNAL, work.output.stderr.read_text()
    if command.startswith("gemini"):  # it checks arguments itself, with its own wording
        refused = next(message for message in transcript.messages if message.is_error)
        refused.content = (refused.content or "").replace("one of the allowed values", "'red' or 'blue'")
    check_conversation(transcript)
    check_usage(transcript, endpoint)
    assert (transcript.model, transcript.fault) == ("scripted", None)
    assert endpoint.unknown == []
    offered = {name for request in endpoint.requests for name in request.tools}
    assert not [name for name in offered if "shell" in name or "bash" in name or "write" in name]
    kept = [path for path in work.folder.rglob("*") if path.is_file() and KEY.encode() in path.read_bytes()]
    assert kept == []
    # Codex writes its environment there, and later removes most of it
    assert not list(work.folder.rglob("shell_snapshots"))


FAULTS = [
    pytest.param(
        command, fault, marks=[pytest.mark.full] * (command != "codex-acp" or fault.status in (429, 500))
    )
    for command in REAL
    for fault in (Fault(status=401), Fault(cut=3, after=1), Fault(status=429, after=1), Fault(status=500))
    if command != "opencode acp" or fault.status == 401  # it retries the others: see the next test
]


@pytest.mark.parametrize(("command", "fault"), FAULTS)
def test_a_real_agents_endpoint_that_fails_is_a_fault(
    attempt: Make, endpoint: ModelEndpoint, command: str, fault: Fault
) -> None:
    endpoint.fault = fault
    work = attempt(Acp())
    options = {"command": command} if "opencode" in command else {"command": command, "max_retries": "0"}
    transcript = work.run(url(endpoint, command), options=options)
    assert transcript.fault is not None, work.output.stdout.read_text()
    assert transcript.fault.kind in ("endpoint_error", "login_missing")


@pytest.mark.full  # opencode's own plugin has the same test
@pytest.mark.parametrize("fault", [{"status": 500}, {"status": 429}, {"cut": 3}])
def test_agent_stopped_while_retrying_is_an_endpoint_fault(
    attempt: Make, endpoint: ModelEndpoint, fault: dict
) -> None:
    """opencode retries until it is stopped, and does not report it."""
    first, again = Gate(), Gate()
    endpoint.fault = Fault(gate=first, after=1, **fault)
    work = attempt(Acp())
    process = work.start(endpoint.openai_url, options={"command": "opencode acp"})
    failed = first.arrived.wait(80)
    endpoint.fault = Fault(gate=again)
    first.release.set()
    retried = again.arrived.wait(80)
    process.kill()
    transcript = work.finish(process)
    assert (failed, retried) == (True, True), work.output.stderr.read_text()
    assert transcript.fault is not None, work.output.stderr.read_text()
    assert transcript.fault.kind == "endpoint_error"
    assert transcript.answer is None
    assert work.journal == JOURNAL[:2]


@pytest.mark.full  # the stand-in asks, too
def test_a_real_agent_that_asks_for_leave_gets_it(attempt: Make, endpoint: ModelEndpoint) -> None:
    def ask_first(home: Path) -> None:
        path = home / "opencode.json"
        config = json.loads(path.read_text())
        assert config["permission"]["desk_*"] == "allow"
        config["permission"]["desk_*"] = "ask"
        path.write_text(json.dumps(config))

    work = attempt(Acp())
    transcript = work.run(endpoint.openai_url, options={"command": "opencode acp"}, spoil=ask_first)
    events = [json.loads(line) for line in work.output.stdout.read_text().splitlines()]
    asked = [event["tool"] for event in events if event["type"] == "permission"]
    assert {"add", "desk.tidy"} <= set(asked)
    assert (work.journal, transcript.fault) == (JOURNAL, None)


def test_the_agent_of_a_command_has_its_name_and_version(tmp_path: Path) -> None:
    bound = Acp().for_options({"command": "gemini --acp"})
    pinned = json.loads((NODE / "package.json").read_text())["dependencies"]["@google/gemini-cli"]
    assert (bound.name, bound.find(node_environ(tmp_path)).version) == ("acp:gemini", pinned)
    assert bound.capabilities.builtin_tools_off
    assert not Acp().capabilities.builtin_tools_off


@pytest.mark.parametrize(
    ("name", "ends", "version"),
    [
        ("mine", "echo 'no such option: --version' >&2; exit 2", "unknown"),
        ("mine", "echo hello", "unknown"),
        ("mine", "exit 127", None),
        ("kimi", "exit 2", None),
    ],
    ids=["refused", "not printed", "its interpreter is missing", "an agent that is known to print it"],
)
def test_an_agent_without_a_profile_need_not_print_its_version(
    tmp_path: Path, name: str, ends: str, version: str | None
) -> None:
    program = tmp_path / name
    program.write_text(f"#!/bin/sh\n{ends}\n")
    program.chmod(0o700)
    bound = Acp().for_options({"command": f"{program} acp"})
    if version is None:
        with pytest.raises(MissingDependencyError, match="--version failed"):
            bound.find({"PATH": "/usr/bin:/bin"})
    else:
        assert bound.find({"PATH": "/usr/bin:/bin"}) == Installation(str(program), version)


@pytest.mark.parametrize(
    ("command", "name"),
    [
        (("npx", "-y", "@agentclientprotocol/codex-acp@2.6.0"), "codex-acp"),
        (("/opt/bin/kimi", "acp"), "kimi"),
        (("my agent", "--acp"), "my-agent"),
        (("npx", "-p", "@google/gemini-cli", "gemini", "--acp"), "gemini"),
        (("env", "NO_COLOR=1", "qwen", "--acp"), "qwen"),
        (("node", "--no-warnings", "/opt/node_modules/.bin/opencode", "acp"), "opencode"),
        (("uvx", "fancy@1.2"), "uvx"),
        (("goose", "acp", "--provider", "copilot"), "goose"),
        (("npx", "-y", "fancy", "--model", "qwen"), "npx"),
    ],
)
def test_the_profile_is_that_of_the_program(command: tuple[str, ...], name: str) -> None:
    assert profile_of(command).name == name


def test_a_command_that_is_none_is_refused(attempt: Make) -> None:
    for text in ("", "'open"):
        with pytest.raises(WrongUseError, match="command"):
            Acp().for_options({"command": text})
    with pytest.raises(MissingDependencyError, match="no-such-agent"):
        attempt(Acp()).start(None, options={"command": "no-such-agent --acp"})


def test_an_unknown_agent_cannot_be_pointed_at_an_endpoint(attempt: Make) -> None:
    with pytest.raises(WrongUseError, match="login=NAME"):
        stand_in(attempt, "say:hello", base_url="http://127.0.0.1:9/v1")


@pytest.mark.parametrize("value", ["0", "-1", "nan", "soon", "1e9"])
def test_a_wait_that_makes_no_sense_is_refused(attempt: Make, value: str) -> None:
    with pytest.raises(BenchError, match="wait"):
        stand_in(attempt, options={"wait": value})


# With a stand-in from here on: real agents ask for permission too rarely.


def stand_in(attempt: Make, *actions: str, **more: object) -> Transcript:
    """Run the stand-in with these actions and read its transcript."""
    work = attempt(ours := Unversioned(actions))
    options = {"command": " ".join(map(repr, ours.command)), **more.pop("options", {})}
    return work.run(more.pop("base_url", None), options=options, **{"model": None, **more})


class Unversioned(AcpAgent):
    """The stand-in has no --version."""

    def __init__(self, actions: tuple[str, ...]) -> None:
        super().__init__((*STARTED, *actions))

    def find(self, environ):
        return Installation(self.command[0], "1.0")

    def prepare(self, request: LaunchRequest) -> Launch:
        """Return the launch with our client in a fork, which spares it a second of imports."""
        launch = super().prepare(request)
        usual = environment.command("acp")
        assert launch.argv[: len(usual)] == usual
        return replace(launch, argv=module_command("mcp_bench.clients.acp", *launch.argv[len(usual) :]))


def results(transcript: Transcript) -> list[tuple[str | None, bool]]:
    return [(m.name, m.is_error) for m in transcript.messages if m.role == "tool"]


TITLES = [
    ("ask:add", "add"),
    ("ask:mcp__desk__add", "add"),
    ("ask:desk_desk_tidy", "desk.tidy"),
    ("ask:desk/note (MCP)", "note"),
    ("ask:mcp.desk.add:execute", "add"),
]


@pytest.mark.parametrize(("what", "tool"), TITLES)
def test_a_tool_of_the_server_is_allowed(attempt: Make, what: str, tool: str) -> None:
    transcript = stand_in(attempt, what, "say:done")
    assert results(transcript) == [(tool, False)]
    assert transcript.fault is None
    (call,) = [call for message in transcript.messages for call in message.tool_calls]
    assert call.function.arguments == {"a": 1}


EDIT = {"title": "mcp__desk__add", "kind": "edit", "rawInput": {"path": "x", "content": "y"}}
OTHERS = ("ask:Bash:execute", "ask:add:edit", "ask:add:execute", "ask:mcp__desk__addition")


@pytest.mark.parametrize("what", [*OTHERS, f"call:add:{json.dumps(EDIT)}"])
def test_any_other_tool_is_refused(attempt: Make, what: str) -> None:
    transcript = stand_in(attempt, what, "say:done")
    assert [is_error for _, is_error in results(transcript)] == [True]
    assert transcript.fault is None


def test_with_all_tools_nothing_is_refused(attempt: Make) -> None:
    transcript = stand_in(attempt, "ask:Bash:execute", "say:done", tools="all")
    assert results(transcript) == [("Bash", False)]


def test_servers_tool_that_cannot_be_allowed_is_a_fault(attempt: Make) -> None:
    transcript = stand_in(attempt, "no-yes", "ask:mcp__desk__add", "say:done")
    assert transcript.fault is not None
    assert (transcript.fault.kind, transcript.fault.detail) == ("approval_needed", "denied: add")


def test_messages_and_usage_are_recorded(attempt: Make) -> None:
    transcript = stand_in(attempt, "say:You said:")
    assert transcript.answer is not None
    assert transcript.answer.startswith("You said: Add 1 and 2")
    assert transcript.usage == Usage(input_tokens=14, output_tokens=3, cached_tokens=4)


@pytest.mark.parametrize(
    ("actions", "kind"),
    [
        (("fail:-32603:the endpoint answered 500",), "endpoint_error"),
        (("fail:-32000:expired",), "login_missing"),
        (("login",), "login_missing"),
        (("fail:-32603:context length exceeded",), None),
        (("fail:-32603:ContentFilterError",), None),
        (("exit",), None),
    ],
)
def test_failed_prompt_shows_whose_fault_it_is(attempt: Make, actions: tuple[str, ...], kind: str) -> None:
    fault = stand_in(attempt, *actions).fault
    assert (fault.kind if fault else None) == kind


def test_it_logs_in_by_the_method_that_is_named(attempt: Make) -> None:
    assert stand_in(attempt, "login", "say:in", options={"login_method": "key"}).fault is None


def test_model_and_mode_are_chosen_among_those_it_offers(attempt: Make) -> None:
    work = attempt(Unversioned(("models:small,large", "modes:ask,act", "say:ok")))
    command = " ".join(map(repr, work.agent.command))
    transcript = work.run(None, model="large", options={"command": command, "mode": "act"})
    lines = work.output.stderr.read_text().splitlines()
    asked = [json.loads(line) for line in lines if line.startswith("{")]
    chosen = {one["method"]: one["params"] for one in asked}
    assert chosen["session/set_model"] == {"sessionId": "s1", "modelId": "large"}
    assert chosen["session/set_config_option"] == {"sessionId": "s1", "configId": "how", "value": "act"}
    assert (transcript.model, transcript.fault) == ("large", None)


def test_a_model_that_it_does_not_have_is_named(attempt: Make) -> None:
    fault = stand_in(attempt, "models:small,large", model="huge").fault
    assert fault is not None
    assert (fault.kind, fault.detail) == (
        "bad_option",
        "the agent has no model 'huge' (it has: small, large)",
    )


@settings(max_examples=60, deadline=None)
@given(changes=CHANGES)
@pytest.mark.parametrize("command", ["codex-acp", "gemini --acp", "anything"])
def test_reading_survives_whatever_is_left(
    finished_over: FinishedOver, command: str, changes: Changes
) -> None:
    """With damaged copies of the files of a real agent."""
    finished = finished_over("codex-acp").work
    agent = Acp().for_options({"command": command})
    transcript = read_spoiled(agent, finished.output, finished.server, changes)
    assert len(transcript.messages) <= 30


@given(
    st.integers(0, 9), st.integers(0, 9), st.integers(1, 9), st.integers(10, 19), st.booleans(), st.booleans()
)
def test_cached_input_and_thoughts_are_counted_once(
    given_: int, made: int, cached: int, thoughts: int, cached_apart: bool, thoughts_apart: bool
) -> None:
    whole = given_ + made + cached + thoughts
    reported = {
        "inputTokens": given_ if cached_apart else given_ + cached,
        "outputTokens": made if thoughts_apart else made + thoughts,
        "cachedReadTokens": cached,
        "thoughtTokens": thoughts,
        "totalTokens": whole,
    }
    usage = plus(Usage(), reported)
    assert (usage.input_tokens, usage.output_tokens) == (given_ + cached, made + thoughts)
