"""Every command-line agent, with its real program: the checks that all plugins have to pass.

The particulars of each agent are in `tests/support/agents/agent_cases.py`, and its own tests in `test_<agent>.py`.
"""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings

from mcp_bench.plugins.contracts import Launch, LaunchRequest, McpServer, Transcript
from mcp_bench.servers.errors import BenchError, MissingDependencyError
from tests.plugins.conftest import USER, Finished
from tests.support.agents.agent_attempt import Attempt
from tests.support.agents.agent_cases import AGENT_CASES, AgentCase
from tests.support.agents.node_clis import NODE, node_environ
from tests.support.desk.desk_over_http import over_http
from tests.support.desk.desk_script import JOURNAL, PROMPT, check_conversation, check_usage, script
from tests.support.model_endpoint.endpoint import ModelEndpoint
from tests.support.model_endpoint.fault import Fault, Gate
from tests.support.model_endpoint.script import Script, ScriptedCall, Step
from tests.support.spoiling import CHANGES, Changes, read_spoiled

pytestmark = pytest.mark.contract

Make = Callable[..., Attempt]
FinishedBy = Callable[[str], Finished]
CLAUDE, CODEX, GEMINI, QWEN, OPENCODE = AGENT_CASES.values()
SLOW = (GEMINI, QWEN, OPENCODE)
"""Each start of theirs takes two to nine seconds. `make test` has one session of each, and a refused key; the two
fast agents stand in for the rest."""
WHOLE = pytest.mark.full


def agents(having: str = "name", full: tuple[AgentCase, ...] = ()) -> Any:
    """Parametrise a test with the agents that have this attribute; those in `full` for the full sweep only."""
    return pytest.mark.parametrize(
        "case",
        [
            pytest.param(case, id=case.name, marks=[WHOLE] * (case in full))
            for case in AGENT_CASES.values()
            if getattr(case, having) is not None
        ],
    )


def rows(*cases: tuple[Any, ...]) -> list[Any]:
    """Return parameters that begin with an agent; a row that ends with WHOLE is for the full sweep only."""
    return [
        pytest.param(*[part for part in row if part is not WHOLE], marks=[WHOLE] * (row[-1] is WHOLE),
                     id=f"{row[0].name}-{number}")
        for number, row in enumerate(cases)
    ]  # fmt: skip


def check_fault(transcript: Transcript, kind: str, words: str = "") -> None:
    assert transcript.fault is not None
    assert transcript.fault.kind == kind
    assert words in transcript.fault.detail


# One finished attempt for each agent, shared.


@agents()
def test_agent_completes_the_script(finished_by: FinishedBy, case: AgentCase) -> None:
    done = finished_by(case.name)
    assert done.work.journal == JOURNAL, done.work.output.stderr.read_text()
    check_conversation(done.transcript)
    check_usage(done.transcript, done.endpoint)
    assert (done.transcript.model, done.transcript.fault) == (case.model, None)
    assert done.endpoint.unknown == []


@agents()
def test_key_is_written_nowhere(finished_by: FinishedBy, key: str, case: AgentCase) -> None:
    files = [path for path in finished_by(case.name).work.folder.rglob("*") if path.is_file()]
    assert [path for path in files if key.encode() in path.read_bytes()] == []


@agents(having="offered")
def test_only_the_servers_tools_are_offered(finished_by: FinishedBy, case: AgentCase) -> None:
    offered = [name for request in finished_by(case.name).endpoint.requests for name in request.tools]
    assert offered
    assert [name for name in offered if not name.startswith(str(case.offered))] == []


@agents()
@settings(max_examples=60, deadline=None)
@given(changes=CHANGES)
def test_reading_survives_damaged_files(finished_by: FinishedBy, case: AgentCase, changes: Changes) -> None:
    work = finished_by(case.name).work
    assert len(read_spoiled(work.agent, work.output, work.server, changes).messages) <= 20


# Tools and prompts.


@agents(having="offered", full=SLOW)
def test_own_tools_do_nothing(attempt: Make, endpoint: ModelEndpoint, case: AgentCase) -> None:
    endpoint.scripts = [Script(PROMPT, (Step(case.shell), Step(text="Done.")))]
    work = attempt(case.real.plugin())
    transcript = work.run(case.real.address(endpoint))
    offered = [name for request in endpoint.requests for name in request.tools]
    assert offered
    assert all(name.startswith(str(case.offered)) for name in offered)
    assert list(work.workdir.iterdir()) == []
    assert (transcript.answer, transcript.fault) == ("Done.", None)


@agents(full=SLOW)
def test_all_tools_run_without_approval(
    attempt: Make, endpoint: ModelEndpoint, key: str, case: AgentCase
) -> None:
    """With `--tools all`; the web stays denied."""
    add = ScriptedCall("add", {"a": 1, "b": 2})
    turns = [case.shell, *([(case.web,)] if case.web else []), (add,)]
    endpoint.scripts = [Script(PROMPT, (*map(Step, turns), Step(text="Done.")))]
    work = attempt(case.real.plugin())
    transcript = work.run(case.real.address(endpoint), tools="all", model=case.all_tools_model)
    assert [(work.workdir / name).read_text() for name in case.files] == ["hello\n"] * len(case.files)
    assert work.journal == [("add", {"a": 1, "b": 2})]
    made = [call.function for message in transcript.messages for call in message.tool_calls]
    scripted = [call for turn in turns for call in turn]
    assert [call.name for call in made] == [call.name for call in scripted]
    texts = [
        call.arguments if isinstance(call.arguments, dict) else {"input": call.arguments} for call in scripted
    ]
    assert [call.arguments for call in made] == texts
    assert (transcript.answer, transcript.fault) == ("Done.", None)
    assert not {"ToolSearch", case.web.name if case.web else ""} & set(endpoint.requests[0].tools)
    assert key not in transcript.model_dump_json()


@pytest.mark.parametrize(
    ("case", "prompt"),
    rows(
        (CLAUDE, "/compact the list, then add.", WHOLE),
        (CLAUDE, "--help me to add."),
        (CLAUDE, "@work/x, add.", WHOLE),
        (GEMINI, "/help me to add for bob@example.com, @desk or @/etc/passwd."),
        (GEMINI, '"Add," he wrote, "and !{touch made} {{args}}"', WHOLE),
        (GEMINI, "--help me\n\n  to add ${HOME} — 道 \\@ `date`.", WHOLE),
        (GEMINI, "Add. " * 25_000, WHOLE),
        (QWEN, "/help me to add for bob@example.com, @desk or @/etc/passwd.", WHOLE),
        (QWEN, '"Add," he wrote, "and !{touch made} {{args}}"', WHOLE),
        (QWEN, "--help me\n\n  to add ${HOME} — 道 \\@ `date`\x7f.", WHOLE),
        (QWEN, "Add. " * 30_000, WHOLE),
    ),
)
def test_prompt_reaches_the_model_unchanged(
    attempt: Make, endpoint: ModelEndpoint, case: AgentCase, prompt: str
) -> None:
    """It is not taken for a command, an option or a file. The other agents read it from stdin."""
    endpoint.scripts = [script(prompt)]
    work = attempt(case.real.plugin(), prompt=prompt)
    check_conversation(work.run(case.real.address(endpoint)))
    assert work.journal == JOURNAL
    if case.asked_prompt:
        assert case.asked_prompt(endpoint.requests[0].body).removeprefix("\n") == prompt


# The model endpoint fails.


@pytest.mark.parametrize(
    ("case", "fault", "words"),
    rows(
        (CLAUDE, Fault(status=401), "401"),
        (CLAUDE, Fault(status=429, after=1), "429"),
        (CLAUDE, Fault(status=500), "500"),
        (CLAUDE, Fault(cut=3, after=1), "API Error"),
        (CODEX, Fault(status=401), "401"),
        (CODEX, Fault(status=429, after=1), "429"),
        (CODEX, Fault(status=500), "errors"),
        (CODEX, Fault(cut=3, after=1), "disconnected"),
        (GEMINI, Fault(status=401), "401"),
        (GEMINI, Fault(status=429, after=1), "try again later", WHOLE),
        (GEMINI, Fault(status=500), "500", WHOLE),
        (GEMINI, Fault(cut=1, after=1), "API Error", WHOLE),
        (QWEN, Fault(status=401), "401"),
        (QWEN, Fault(status=429, after=1, headers={"retry-after": "1"}), "429", WHOLE),
        (OPENCODE, Fault(status=401), "401"),
    ),
)
def test_failing_endpoint_is_a_fault(
    attempt: Make, endpoint: ModelEndpoint, case: AgentCase, fault: Fault, words: str
) -> None:
    endpoint.fault = fault
    work = attempt(case.real.plugin())
    transcript = work.run(case.real.address(endpoint), options=case.real.options)
    check_fault(transcript, "login_missing" if fault.status == 401 else "endpoint_error", words)
    assert (transcript.answer, len(work.journal)) == (None, 2 * fault.after)


@agents(full=SLOW)
def test_endpoint_that_recovers_is_no_fault(attempt: Make, case: AgentCase) -> None:
    """The user has no key, and the endpoint needs none: the agent sends a placeholder."""
    with ModelEndpoint([script()], fault=Fault(status=500, first=1)) as endpoint:
        transcript = attempt(case.real.plugin(), environ={}).run(case.real.address(endpoint))
        assert transcript.fault is None
        check_conversation(transcript)
        check_usage(transcript, endpoint)


@pytest.mark.parametrize(
    ("case", "fault", "words"),
    rows(
        (CLAUDE, Fault(status=529, message="overloaded"), "529"),
        (GEMINI, Fault(status=503, message="overloaded", after=1), "503", WHOLE),
        (QWEN, Fault(status=429, after=1), "429", WHOLE),
        (QWEN, Fault(status=500), "500", WHOLE),
        (QWEN, Fault(cut=3, after=1), "terminated", WHOLE),
    ),
)
def test_agent_killed_while_retrying_is_a_fault(
    attempt: Make, endpoint: ModelEndpoint, case: AgentCase, fault: Fault, words: str
) -> None:
    """As at a timeout. opencode has its own test; Codex does not retry for long."""
    endpoint.fault = fault
    work = attempt(case.real.plugin())
    process = work.start(case.real.address(endpoint))
    assert case.retrying is not None
    work.wait_until(process, case.retrying)
    process.kill()
    transcript = work.finish(process)
    assert '"type":"result"' not in work.output.stdout.read_text()
    check_fault(transcript, "endpoint_error", words)
    assert (transcript.answer, len(work.journal)) == (None, 2 * fault.after)


@agents(full=SLOW)
def test_full_context_is_the_agents_own_failure(
    attempt: Make, endpoint: ModelEndpoint, case: AgentCase
) -> None:
    endpoint.fault = case.full_context
    work = attempt(case.real.plugin())
    transcript = work.run(case.real.address(endpoint), options=case.real.options)
    assert (transcript.fault, transcript.answer) == (None, None)
    assert work.journal == JOURNAL[:2]


@pytest.mark.parametrize(
    ("case", "step"),
    rows(*(
        (case, step, *[WHOLE] * (case in SLOW)) for case in AGENT_CASES.values() for step in case.own_ends
    )),
)  # fmt: skip
def test_turn_that_its_model_ends_is_no_fault(
    attempt: Make, endpoint: ModelEndpoint, case: AgentCase, step: Step
) -> None:
    """The endpoint has answered: the model refused, was filtered, said nothing, or had no tokens left."""
    endpoint.scripts = [Script(PROMPT, (step,))]
    work = attempt(case.real.plugin())
    transcript = work.run(case.real.address(endpoint), options=case.real.options)
    assert (transcript.fault, work.journal) == (None, [])


@agents(full=SLOW)
def test_killed_agent_leaves_what_it_did(attempt: Make, endpoint: ModelEndpoint, case: AgentCase) -> None:
    """It is stopped while the model answers its second request, which is no fault of anybody."""
    gate = Gate()
    endpoint.fault = Fault(gate=gate, after=1)
    work = attempt(case.real.plugin())
    process = work.start(case.real.address(endpoint))
    arrived = gate.arrived.wait(80)
    work.wait_until(process, two_results)  # written beside its second request
    if case is QWEN:
        process.kill()
    transcript = work.finish(process, stop=True)
    assert arrived, work.output.stderr.read_text()
    assert [m.role for m in transcript.messages] == ["assistant", "tool", "tool"]
    for message, words in zip(transcript.messages, ("Adding.", "3", "7"), strict=True):
        assert message.content == words if case.verbatim else words in (message.content or "")
    assert (transcript.answer, transcript.fault) == (None, None)
    sent = endpoint.requests[0].usage
    assert sent is not None
    usage = transcript.usage
    assert usage is not None
    assert (usage.input_tokens, usage.output_tokens, usage.model_calls) == (sent.input, sent.output, 1)


def two_results(work: Attempt) -> bool:
    transcript = work.agent.read(work.output, work.server)
    results = [message for message in transcript.messages if message.role == "tool"]
    return len(results) == 2 and transcript.usage is not None


# The login, the server or the configuration fails.


@agents(having="login_variable", full=SLOW)
def test_lost_login_is_a_fault(attempt: Make, endpoint: ModelEndpoint, case: AgentCase) -> None:
    """The environment that the program starts in has no key."""
    work = attempt(case.real.plugin())
    prepare = work.agent.prepare

    def without_key(request: LaunchRequest) -> Launch:
        launch = prepare(request)
        return replace(launch, env={k: v for k, v in launch.env.items() if k != case.login_variable})

    work.agent.prepare = without_key  # type: ignore[method-assign]
    check_fault(work.run(case.real.address(endpoint)), "login_missing")
    assert endpoint.requests == []


@agents(full=SLOW)
def test_server_that_does_not_start_is_a_fault(
    attempt: Make, endpoint: ModelEndpoint, case: AgentCase
) -> None:
    work = attempt(case.real.plugin())
    work.server = McpServer("desk", ("/nowhere/at-all",), ("add",))
    transcript = work.run(case.real.address(endpoint))
    check_fault(transcript, "server_not_connected", case.no_server)
    if case is CODEX:  # it ends before it asks its model
        assert endpoint.requests == []


@pytest.mark.parametrize("case", rows((GEMINI,), (QWEN, WHOLE)))
def test_server_is_reached_by_url(attempt: Make, endpoint: ModelEndpoint, case: AgentCase) -> None:
    work = attempt(case.real.plugin())
    with over_http(work):
        check_conversation(work.run(case.real.address(endpoint)))
    assert sorted(work.journal, key=str) == sorted(JOURNAL, key=str)


@agents(having="ask_first", full=SLOW)
def test_call_without_approval_is_a_fault(attempt: Make, endpoint: ModelEndpoint, case: AgentCase) -> None:
    work = attempt(case.real.plugin())
    transcript = work.run(case.real.address(endpoint), spoil=case.ask_first)
    check_fault(transcript, "approval_needed", "denied: add" if case in (QWEN, OPENCODE) else "")
    # Qwen Code has to ask for `add` only; opencode ends at the first refusal.
    assert work.journal == ([("desk.tidy", {})] if case is QWEN else [])
    assert transcript.answer == ("3 and 7." if case is not OPENCODE else None)


@agents(having="refused_settings")
def test_refused_configuration_is_a_fault(attempt: Make, endpoint: ModelEndpoint, case: AgentCase) -> None:
    assert case.refused_settings is not None
    spoil, words = case.refused_settings
    check_fault(
        attempt(case.real.plugin()).run(case.real.address(endpoint), spoil=spoil), "bad_option", words
    )


# The program and the user's environment.


@agents()
def test_missing_program_is_named(tmp_path: Path, case: AgentCase) -> None:
    with pytest.raises(MissingDependencyError, match=f"npm install -g {case.package}"):
        case.real.plugin().find({"PATH": str(tmp_path)})


@agents()
def test_broken_program_is_named(tmp_path: Path, case: AgentCase) -> None:
    program = tmp_path / case.program
    program.write_text("#!/bin/sh\necho 'something is wrong' >&2\nexit 3\n")
    program.chmod(0o755)
    with pytest.raises(MissingDependencyError, match=r"exit code 3.*something is wrong.*npm install"):
        case.real.plugin().find({"PATH": str(tmp_path)})


@agents()
def test_version_is_the_pinned_one(tmp_path: Path, case: AgentCase) -> None:
    pinned = json.loads((NODE / "package.json").read_text())["dependencies"][case.package]
    found = case.real.plugin().find(node_environ(tmp_path))
    assert (found.version, Path(found.executable).name) == (pinned, case.program)


@agents(having="user_endpoint", full=(QWEN,))
def test_users_own_endpoint_is_used(
    attempt: Make, endpoint: ModelEndpoint, key: str, case: AgentCase
) -> None:
    assert case.user_endpoint is not None
    key_variable, url_variable = case.user_endpoint
    environ = {key_variable: key, url_variable: case.real.address(endpoint)}
    model = "scripted"
    if case.user_model:
        environ[case.user_model] = model = "theirs"
    work = attempt(case.real.plugin(), environ=environ)
    transcript = work.run(None, model=None if case.user_model else model)
    check_conversation(transcript)
    assert transcript.model == model


@agents()
def test_agent_without_login_is_not_started(attempt: Make, case: AgentCase) -> None:
    """A key of another provider is not used."""
    others = [name for name in USER if name not in case.no_login]
    work = attempt(case.real.plugin(), environ=dict.fromkeys(others, "another"))
    with pytest.raises(BenchError, match=case.no_login):
        work.start(None, model="anthropic/claude-x")
