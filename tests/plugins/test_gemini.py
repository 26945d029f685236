"""The plugin of Gemini CLI, with the real program."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings

from mcp_bench.plugins.contracts import LaunchRequest, McpServer
from mcp_bench.plugins.gemini.agent import Gemini
from mcp_bench.plugins.gemini.session import model_name
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
AT_ONCE = {"max_retries": "0"}
POLICY = Path(".gemini", "policies", "episode.toml")
SETTINGS = Path(".gemini", "settings.json")


def test_it_works_through_the_script_and_tells_all_of_it(
    attempt: Make, endpoint: ModelEndpoint, key: str
) -> None:
    work = attempt(Gemini())
    transcript = work.run(endpoint.gemini_url)
    assert work.journal == JOURNAL, work.output.stderr.read_text()
    check_conversation(transcript)
    check_usage(transcript, endpoint)
    assert [m.content for m in transcript.messages if m.role == "tool"][:2] == ["3", "7"]
    assert (transcript.model, transcript.fault) == ("scripted", None)
    assert endpoint.unknown == []
    kept = [path for path in work.folder.rglob("*") if path.is_file() and key.encode() in path.read_bytes()]
    assert kept == []


def test_only_the_servers_tools_are_offered(attempt: Make, endpoint: ModelEndpoint) -> None:
    call = ScriptedCall("run_shell_command", {"command": "touch made"})
    endpoint.scripts = [Script(PROMPT, (Step((call,)), Step(text="Done.")))]
    work = attempt(Gemini())
    transcript = work.run(endpoint.gemini_url)
    offered = [name for request in endpoint.requests for name in request.tools]
    assert offered
    assert all(name.startswith("mcp_desk_") for name in offered)
    assert list(work.workdir.iterdir()) == []
    assert (transcript.answer, transcript.fault) == ("Done.", None)


def test_with_all_tools_its_shell_runs_unasked_and_without_the_key(
    attempt: Make, endpoint: ModelEndpoint, key: str
) -> None:
    steps = (
        Step(
            (ScriptedCall("run_shell_command", {"command": "echo hello > made && echo [$GEMINI_API_KEY]"}),)
        ),
        Step((ScriptedCall("google_web_search", {"query": "sums"}),)),
        Step((ScriptedCall("add", {"a": 1, "b": 2}),)),
        Step(text="Done."),
    )
    endpoint.scripts = [Script(PROMPT, steps)]
    work = attempt(Gemini())
    transcript = work.run(endpoint.gemini_url, tools="all")
    assert (work.workdir / "made").read_text() == "hello\n"
    assert work.journal == [("add", {"a": 1, "b": 2})]
    assert "google_web_search" not in endpoint.requests[0].tools
    names = [call.function.name for message in transcript.messages for call in message.tool_calls]
    assert (names, transcript.fault) == (["run_shell_command", "google_web_search", "add"], None)
    assert key not in transcript.model_dump_json()


@pytest.mark.parametrize(
    "prompt",
    [
        "/help me to add for bob@example.com, @desk or @/etc/passwd.",
        pytest.param('"Add," he wrote, "and !{touch made} {{args}}"', marks=pytest.mark.full),
        pytest.param("--help me\n\n  to add ${HOME} — 道 \\@ `date`.", marks=pytest.mark.full),
        pytest.param("Add. " * 25_000, marks=pytest.mark.full),
    ],
)
def test_a_prompt_is_never_taken_for_something_else(
    attempt: Make, endpoint: ModelEndpoint, prompt: str
) -> None:
    endpoint.scripts = [script(prompt)]
    work = attempt(Gemini(), prompt=prompt)
    check_conversation(work.run(endpoint.gemini_url))
    assert work.journal == JOURNAL
    assert endpoint.requests[0].body["contents"][0]["parts"][-1]["text"].removeprefix("\n") == prompt


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (Fault(status=401), "401"),
        (Fault(status=429, after=1), "try again later"),
        pytest.param(Fault(status=500), "500", marks=pytest.mark.full),
        (Fault(cut=1, after=1), "API Error"),
    ],
)
def test_an_endpoint_that_fails_is_a_fault(
    attempt: Make, endpoint: ModelEndpoint, fault: Fault, words: str
) -> None:
    endpoint.fault = fault
    work = attempt(Gemini())
    transcript = work.run(endpoint.gemini_url, options=AT_ONCE)
    assert transcript.fault is not None
    assert transcript.fault.kind == "endpoint_error"
    assert words in transcript.fault.detail
    assert (transcript.answer, len(work.journal)) == (None, 2 * fault.after)


def test_an_endpoint_that_recovers_is_none(attempt: Make, endpoint: ModelEndpoint) -> None:
    endpoint.fault = Fault(status=500, first=1)
    transcript = attempt(Gemini()).run(endpoint.gemini_url)
    assert transcript.fault is None
    check_conversation(transcript)
    check_usage(transcript, endpoint)


def test_an_endpoint_that_fails_until_the_end_is_a_fault(attempt: Make, endpoint: ModelEndpoint) -> None:
    """The agent is ended while it waits to try again, as it is at a timeout."""
    endpoint.fault = Fault(status=503, message="overloaded", after=1)
    work = attempt(Gemini())
    process = work.start(endpoint.gemini_url)
    with work.output.stderr.open() as words:
        while process.poll() is None and "Retrying" not in words.readline():
            pass
    process.kill()
    transcript = work.finish(process)
    assert '"type":"result"' not in work.output.stdout.read_text()
    assert transcript.fault is not None
    assert transcript.fault.kind == "endpoint_error"
    assert "503" in transcript.fault.detail


def test_a_full_context_is_the_agents_own_failure(attempt: Make, endpoint: ModelEndpoint) -> None:
    full = "The input token count (1048577) exceeds the maximum number of tokens allowed (1048576)."
    endpoint.fault = Fault(status=400, message=full, after=1)
    work = attempt(Gemini())
    transcript = work.run(endpoint.gemini_url, options=AT_ONCE)
    assert (transcript.fault, transcript.answer) == (None, None)
    assert work.journal == JOURNAL[:2]


def test_a_login_that_is_gone_is_a_fault(attempt: Make, endpoint: ModelEndpoint) -> None:
    """The environment that it is started in has no key."""

    class Forgetful(Gemini):
        def prepare(self, request: LaunchRequest):
            launch = super().prepare(request)
            return replace(launch, env={k: v for k, v in launch.env.items() if k != "GEMINI_API_KEY"})

    transcript = attempt(Forgetful()).run(endpoint.gemini_url)
    assert transcript.fault is not None
    assert transcript.fault.kind == "login_missing"
    assert endpoint.requests == []


def test_a_server_that_does_not_start_is_a_fault(attempt: Make, endpoint: ModelEndpoint) -> None:
    work = attempt(Gemini())
    work.server = McpServer("desk", ("/nowhere/at-all",), ("add",))
    transcript = work.run(endpoint.gemini_url)
    assert transcript.fault is not None
    assert transcript.fault.kind == "server_not_connected"


def test_a_server_is_reached_by_url(attempt: Make, endpoint: ModelEndpoint) -> None:
    work = attempt(Gemini())
    with over_http(work):
        check_conversation(work.run(endpoint.gemini_url))
    assert sorted(work.journal, key=str) == sorted(JOURNAL, key=str)


def test_a_tool_that_nobody_approves_is_a_fault(attempt: Make, endpoint: ModelEndpoint) -> None:
    def ask_first(home: Path) -> None:
        rules = (home / POLICY).read_text()
        (home / POLICY).write_text(rules.replace('"allow"', '"ask_user"'))

    work = attempt(Gemini())
    transcript = work.run(endpoint.gemini_url, spoil=ask_first)
    assert (work.journal, transcript.answer) == ([], "3 and 7.")
    assert transcript.fault is not None
    assert transcript.fault.kind == "approval_needed"


def test_settings_that_it_refuses_are_a_fault(attempt: Make, endpoint: ModelEndpoint) -> None:
    transcript = attempt(Gemini()).run(
        endpoint.gemini_url, spoil=lambda home: (home / SETTINGS).write_text("{no")
    )
    assert transcript.fault is not None
    assert transcript.fault.kind == "bad_option"


def test_what_it_did_until_it_was_ended_is_told(attempt: Make, endpoint: ModelEndpoint) -> None:
    gate = Gate()
    endpoint.fault = Fault(gate=gate, after=1)
    work = attempt(Gemini())
    process = work.start(endpoint.gemini_url)
    arrived = gate.arrived.wait(60)
    transcript = work.finish(process, stop=True)
    assert arrived, work.output.stderr.read_text()
    assert [m.content for m in transcript.messages] == ["Adding.", "3", "7"]
    assert (transcript.answer, transcript.fault) == (None, None)
    sent = endpoint.requests[0].usage
    assert sent is not None
    usage = transcript.usage
    assert usage is not None
    assert (usage.input_tokens, usage.output_tokens, usage.model_calls) == (sent.input, sent.output, 1)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Attempt:
    """An attempt that is over, to spoil copies of what it left."""
    work = Attempt(
        tmp_path_factory.mktemp("gemini") / "attempt", Gemini(), environ={"GEMINI_API_KEY": "dummy"}
    )
    with ModelEndpoint([script()]) as endpoint:
        check_conversation(work.run(endpoint.gemini_url))
    return work


@settings(max_examples=60, deadline=None)
@given(changes=CHANGES)
def test_reading_survives_whatever_is_left(finished: Attempt, changes: Changes) -> None:
    transcript = read_spoiled(finished.agent, finished.output, finished.server, changes)
    assert len(transcript.messages) <= 20


def test_names_of_tools_are_those_that_it_gives_them() -> None:
    """It cuts out the middle of a long one."""
    assert model_name("desk", "tidy up") == "mcp_desk_tidy_up"
    long = model_name("desk", "a" * 40 + "b" * 40)
    assert long == "mcp_desk_" + "a" * 21 + "..." + "b" * 30


def test_a_program_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(MissingDependencyError, match="npm install -g @google/gemini-cli"):
        Gemini().find({"PATH": str(tmp_path)})


def test_the_version_is_the_pinned_one(tmp_path: Path) -> None:
    pinned = json.loads((NODE / "package.json").read_text())["dependencies"]["@google/gemini-cli"]
    found = Gemini().find(node_environ(tmp_path))
    assert (found.version, Path(found.executable).name) == (pinned, "gemini")


def test_the_users_own_endpoint_is_used(attempt: Make, endpoint: ModelEndpoint, key: str) -> None:
    environ = {"GOOGLE_API_KEY": key, "GOOGLE_GEMINI_BASE_URL": endpoint.gemini_url}
    check_conversation(attempt(Gemini(), environ=environ).run(None))


def test_without_a_login_it_is_not_started(attempt: Make) -> None:
    with pytest.raises(BenchError, match="GEMINI_API_KEY or GOOGLE_API_KEY"):
        attempt(Gemini(), environ={"OPENAI_API_KEY": "another"}).start(None)
