"""The plugin of Qwen Code, with the real program."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings

from mcp_bench.plugins.contracts import LaunchRequest, McpServer
from mcp_bench.plugins.qwen_code.agent import QwenCode
from mcp_bench.plugins.qwen_code.session import model_name
from mcp_bench.servers.errors import BenchError, MissingDependencyError
from tests.support.agents.agent_attempt import Attempt
from tests.support.agents.node_clis import NODE, node_environ
from tests.support.desk.desk_over_http import over_http
from tests.support.desk.desk_script import JOURNAL, PROMPT, check_conversation, check_usage, script
from tests.support.model_endpoint.endpoint import ModelEndpoint
from tests.support.model_endpoint.fault import Fault, Gate
from tests.support.model_endpoint.script import Script, ScriptedCall, Step
from tests.support.spoiling import CHANGES, Changes, read_spoiled

Make = Callable[..., Attempt]
LOGS = ".qwen/projects/*/chats/*.jsonl"


def test_it_works_through_the_script_and_tells_all_of_it(
    attempt: Make, endpoint: ModelEndpoint, key: str
) -> None:
    work = attempt(QwenCode())
    transcript = work.run(endpoint.openai_url)
    assert work.journal == JOURNAL, work.output.stderr.read_text()
    check_conversation(transcript)
    check_usage(transcript, endpoint)
    assert (transcript.model, transcript.fault) == ("scripted", None)
    assert endpoint.unknown == []
    kept = [path for path in work.folder.rglob("*") if path.is_file() and key.encode() in path.read_bytes()]
    assert kept == []


def test_only_the_servers_tools_are_offered(attempt: Make, endpoint: ModelEndpoint) -> None:
    call = ScriptedCall("run_shell_command", {"command": "touch made", "is_background": False})
    endpoint.scripts = [Script(PROMPT, (Step((call,)), Step(text="Done.")))]
    work = attempt(QwenCode())
    transcript = work.run(endpoint.openai_url)
    offered = [name for request in endpoint.requests for name in request.tools]
    assert offered
    assert all(name.startswith("mcp__desk__") for name in offered)
    assert list(work.workdir.iterdir()) == []
    assert (transcript.answer, transcript.fault) == ("Done.", None)


def test_with_all_tools_its_shell_runs_unasked(attempt: Make, endpoint: ModelEndpoint) -> None:
    shell = {"command": "echo hello > made", "description": "make a file", "is_background": False}
    steps = (
        Step((ScriptedCall("run_shell_command", shell),)),
        Step((ScriptedCall("web_fetch", {"url": "http://127.0.0.1:9/", "prompt": "look"}),)),
        Step((ScriptedCall("add", {"a": 1, "b": 2}),)),
        Step(text="Done."),
    )
    endpoint.scripts = [Script(PROMPT, steps)]
    work = attempt(QwenCode())
    transcript = work.run(endpoint.openai_url, tools="all")
    assert (work.workdir / "made").read_text() == "hello\n"
    assert work.journal == [("add", {"a": 1, "b": 2})]
    assert "web_fetch" not in endpoint.requests[0].tools
    names = [call.function.name for message in transcript.messages for call in message.tool_calls]
    assert (names, transcript.fault) == (["run_shell_command", "web_fetch", "add"], None)


@pytest.mark.parametrize(
    "prompt",
    [
        "/help me to add for bob@example.com, @desk or @/etc/passwd.",
        pytest.param('"Add," he wrote, "and !{touch made} {{args}}"', marks=pytest.mark.full),
        pytest.param("--help me\n\n  to add ${HOME} — 道 \\@ `date`\x7f.", marks=pytest.mark.full),
        pytest.param("Add. " * 30_000, marks=pytest.mark.full),
    ],
)
def test_a_prompt_is_never_taken_for_something_else(
    attempt: Make, endpoint: ModelEndpoint, prompt: str
) -> None:
    endpoint.scripts = [script(prompt)]
    work = attempt(QwenCode(), prompt=prompt)
    check_conversation(work.run(endpoint.openai_url))
    assert work.journal == JOURNAL
    asked = endpoint.requests[0].body["messages"][-1]["content"][-1]["text"]
    assert asked.removeprefix("\n") == prompt


def test_a_login_that_is_refused_is_a_fault(attempt: Make, endpoint: ModelEndpoint) -> None:
    endpoint.fault = Fault(status=401)
    transcript = attempt(QwenCode()).run(endpoint.openai_url)
    assert transcript.fault is not None
    assert (transcript.fault.kind, transcript.answer) == ("endpoint_error", None)
    assert "401" in transcript.fault.detail


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (Fault(status=429, after=1), "429"),
        pytest.param(Fault(status=500), "500", marks=pytest.mark.full),
        (Fault(cut=3, after=1), "terminated"),
    ],
)
def test_an_endpoint_that_fails_until_the_end_is_a_fault(
    attempt: Make, endpoint: ModelEndpoint, fault: Fault, words: str
) -> None:
    """It tries again for longer than a minute: the agent is ended meanwhile, as it is at a timeout."""
    endpoint.fault = fault
    work = attempt(QwenCode())
    process = work.start(endpoint.openai_url)
    while process.poll() is None and not any('"qwen-code.api_error"' in log for log in logs(work)):
        pass
    process.kill()
    transcript = work.finish(process)
    assert '"type":"result"' not in work.output.stdout.read_text()
    assert transcript.fault is not None
    assert transcript.fault.kind == "endpoint_error"
    assert words in transcript.fault.detail
    assert (transcript.answer, len(work.journal)) == (None, 2 * fault.after)


def test_a_limit_of_requests_ends_it_in_the_end(attempt: Make, endpoint: ModelEndpoint) -> None:
    endpoint.fault = Fault(status=429, after=1, headers={"retry-after": "1"})
    transcript = attempt(QwenCode()).run(endpoint.openai_url, options={"max_retries": "0"})
    assert transcript.fault is not None
    assert (transcript.fault.kind, transcript.answer) == ("endpoint_error", None)
    assert "429" in transcript.fault.detail


def logs(work: Attempt) -> list[str]:
    return [path.read_text(errors="replace") for path in work.home.glob(LOGS)]


def test_an_endpoint_that_recovers_is_none(attempt: Make, endpoint: ModelEndpoint) -> None:
    endpoint.fault = Fault(status=500, first=1)
    transcript = attempt(QwenCode()).run(endpoint.openai_url)
    assert transcript.fault is None
    check_conversation(transcript)
    check_usage(transcript, endpoint)


def test_a_full_context_is_the_agents_own_failure(attempt: Make, endpoint: ModelEndpoint) -> None:
    full = "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000."
    endpoint.fault = Fault(status=400, code="context_length_exceeded", message=full, after=1)
    work = attempt(QwenCode())
    transcript = work.run(endpoint.openai_url)
    assert (transcript.fault, transcript.answer) == (None, None)
    assert work.journal == JOURNAL[:2]


def test_a_login_that_is_gone_is_a_fault(attempt: Make, endpoint: ModelEndpoint) -> None:
    """The environment that it is started in has no key."""

    class Forgetful(QwenCode):
        def prepare(self, request: LaunchRequest):
            launch = super().prepare(request)
            return replace(launch, env={k: v for k, v in launch.env.items() if k != "OPENAI_API_KEY"})

    transcript = attempt(Forgetful()).run(endpoint.openai_url)
    assert transcript.fault is not None
    assert transcript.fault.kind == "login_missing"
    assert endpoint.requests == []


def test_a_server_that_does_not_start_is_a_fault(attempt: Make, endpoint: ModelEndpoint) -> None:
    work = attempt(QwenCode())
    work.server = McpServer("desk", ("/nowhere/at-all",), ("add",))
    transcript = work.run(endpoint.openai_url)
    assert transcript.fault is not None
    assert (transcript.fault.kind, transcript.fault.detail) == ("server_not_connected", "desk: disconnected")


def test_a_server_is_reached_by_url(attempt: Make, endpoint: ModelEndpoint) -> None:
    work = attempt(QwenCode())
    with over_http(work):
        check_conversation(work.run(endpoint.openai_url))
    assert sorted(work.journal, key=str) == sorted(JOURNAL, key=str)


def test_a_tool_that_is_denied_is_a_fault(attempt: Make, endpoint: ModelEndpoint) -> None:
    def deny(home: Path) -> None:
        path = home / ".qwen" / "settings.json"
        config = json.loads(path.read_text())
        config["permissions"]["ask"] = ["mcp__desk__add"]
        path.write_text(json.dumps(config))

    work = attempt(QwenCode())
    transcript = work.run(endpoint.openai_url, spoil=deny)
    assert (work.journal, transcript.answer) == ([("desk.tidy", {})], "3 and 7.")
    assert transcript.fault is not None
    assert (transcript.fault.kind, transcript.fault.detail) == ("approval_needed", "denied: add")


def test_what_it_did_until_it_was_ended_is_told(attempt: Make, endpoint: ModelEndpoint) -> None:
    gate = Gate()
    endpoint.fault = Fault(gate=gate, after=1)
    work = attempt(QwenCode())
    process = work.start(endpoint.openai_url)
    arrived = gate.arrived.wait(60)
    process.kill()
    transcript = work.finish(process)
    assert arrived, work.output.stderr.read_text()
    assert [m.role for m in transcript.messages] == ["assistant", "tool", "tool"]
    assert (transcript.answer, transcript.fault) == (None, None)
    sent = endpoint.requests[0].usage
    assert sent is not None
    usage = transcript.usage
    assert usage is not None
    assert (usage.input_tokens, usage.output_tokens, usage.model_calls) == (sent.input, sent.output, 1)


def test_without_its_file_the_events_tell_nearly_all_of_it(finished: Attempt, tmp_path: Path) -> None:
    """It writes the file late, and not at all where it is killed early."""
    whole = finished.agent.read(finished.output, finished.server)
    transcript = finished.agent.read(replace(finished.output, home=tmp_path / "none"), finished.server)
    check_conversation(transcript)
    assert (transcript.usage, transcript.model) == (whole.usage, whole.model)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Attempt:
    """An attempt that is over, to spoil copies of what it left."""
    environ = {"OPENAI_API_KEY": "dummy"}
    work = Attempt(tmp_path_factory.mktemp("qwen") / "attempt", QwenCode(), environ=environ)
    with ModelEndpoint([script()]) as endpoint:
        check_conversation(work.run(endpoint.openai_url))
    return work


@settings(max_examples=60, deadline=None)
@given(changes=CHANGES)
def test_reading_survives_whatever_is_left(finished: Attempt, changes: Changes) -> None:
    transcript = read_spoiled(finished.agent, finished.output, finished.server, changes)
    assert len(transcript.messages) <= 20


def test_names_of_tools_are_those_that_it_gives_them() -> None:
    """The first two are what the program itself made of them."""
    assert model_name("mcp__desk__add") == "mcp__desk__add"
    assert model_name("mcp__desk__desk.tidy") == "mcp__desk__desk_tidy_1o51pqn"
    long = model_name("mcp__desk__" + "a" * 80)
    assert (len(long), long[:50]) == (63, "mcp__desk__" + "a" * 39)


def test_a_program_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(MissingDependencyError, match="npm install -g @qwen-code/qwen-code"):
        QwenCode().find({"PATH": str(tmp_path)})


def test_the_version_is_the_pinned_one(tmp_path: Path) -> None:
    pinned = json.loads((NODE / "package.json").read_text())["dependencies"]["@qwen-code/qwen-code"]
    found = QwenCode().find(node_environ(tmp_path))
    assert (found.version, Path(found.executable).name) == (pinned, "qwen")


def test_the_users_own_endpoint_and_model_are_used(attempt: Make, endpoint: ModelEndpoint, key: str) -> None:
    environ = {"OPENAI_API_KEY": key, "OPENAI_BASE_URL": endpoint.openai_url, "OPENAI_MODEL": "theirs"}
    transcript = attempt(QwenCode(), environ=environ).run(None, model=None)
    check_conversation(transcript)
    assert transcript.model == "theirs"


def test_without_a_login_it_is_not_started(attempt: Make) -> None:
    with pytest.raises(BenchError, match="OPENAI_API_KEY"):
        attempt(QwenCode(), environ={"GEMINI_API_KEY": "another"}).start(None)
