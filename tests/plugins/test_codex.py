"""The plugin of Codex, with the real program."""

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from time import monotonic

import pytest
from hypothesis import given, settings

from mcp_bench.plugins.codex.agent import Codex
from mcp_bench.plugins.contracts import Installation, LaunchRequest, McpServer
from mcp_bench.servers.errors import BenchError, MissingDependencyError
from tests.support.agents.agent_attempt import Attempt
from tests.support.agents.node_clis import NODE, node_environ
from tests.support.desk.desk_script import JOURNAL, PROMPT, check_conversation, check_usage, script
from tests.support.model_endpoint.endpoint import ModelEndpoint
from tests.support.model_endpoint.fault import Fault, Gate
from tests.support.model_endpoint.script import Script, ScriptedCall, Step
from tests.support.spoiling import CHANGES, Changes, read_spoiled

Make = Callable[..., Attempt]
ROLLOUT = ".codex/sessions/*/*/*/rollout-*.jsonl"
AT_ONCE = {"max_retries": "0"}


def test_it_works_through_the_script_and_tells_all_of_it(
    attempt: Make, endpoint: ModelEndpoint, key: str
) -> None:
    work = attempt(Codex())
    transcript = work.run(endpoint.openai_url)
    assert work.journal == JOURNAL, work.output.stderr.read_text()
    check_conversation(transcript)
    check_usage(transcript, endpoint)
    assert (transcript.model, transcript.fault) == ("scripted", None)
    assert endpoint.unknown == []
    kept = [path for path in work.folder.rglob("*") if path.is_file() and key.encode() in path.read_bytes()]
    assert kept == []


@pytest.mark.parametrize("model", ["gpt-6.1-sol", "gpt-5.5"])
def test_models_that_it_knows_are_given_the_tools_directly(
    attempt: Make, endpoint: ModelEndpoint, model: str
) -> None:
    """By itself Codex gives the first one a script tool instead, and the second one a search."""
    work = attempt(Codex())
    transcript = work.run(endpoint.openai_url, model=model)
    assert work.journal == JOURNAL
    assert transcript.model == model
    check_conversation(transcript)


def test_by_itself_it_hides_them_behind_a_search(attempt: Make, endpoint: ModelEndpoint) -> None:
    """What the setting is good for. A model that does not search can call nothing, and nothing has failed."""

    def without_setting(home: Path) -> None:
        config = home / ".codex" / "config.toml"
        setting = ', "code_mode" = {"direct_only_tool_namespaces" = ["mcp__desk"]}'
        assert setting in config.read_text()
        config.write_text(config.read_text().replace(setting, ""))

    work = attempt(Codex())
    transcript = work.run(endpoint.openai_url, model="gpt-5.5", spoil=without_setting)
    assert "add" not in endpoint.requests[0].tools
    assert (work.journal, transcript.fault) == ([], None)


PATCH = "*** Begin Patch\n*** Add File: made\n+hello\n*** End Patch"


@pytest.mark.parametrize(("model", "patches"), [("scripted", set()), ("gpt-5.5", {"apply_patch"})])
def test_only_the_servers_tools_can_act(
    attempt: Make, endpoint: ModelEndpoint, model: str, patches: set[str]
) -> None:
    calls = (ScriptedCall("apply_patch", PATCH), ScriptedCall("exec_command", {"cmd": "touch made"}))
    endpoint.scripts = [Script(PROMPT, (Step(calls), Step(text="Done.")))]
    work = attempt(Codex())
    transcript = work.run(endpoint.openai_url, model=model)
    reading = {"list_mcp_resources", "list_mcp_resource_templates", "read_mcp_resource", "request_user_input"}
    assert set(endpoint.requests[0].tools) == {"add", "note", "desk_tidy"} | reading | patches
    assert list(work.workdir.iterdir()) == []
    assert (transcript.answer, transcript.fault) == ("Done.", None)


def test_with_all_tools_its_shell_runs_unasked(attempt: Make, endpoint: ModelEndpoint) -> None:
    steps = (
        Step((ScriptedCall("exec_command", {"cmd": "echo hi > there"}), ScriptedCall("apply_patch", PATCH))),
        Step((ScriptedCall("add", {"a": 1, "b": 2}),)),
        Step(text="Done."),
    )
    endpoint.scripts = [Script(PROMPT, steps)]
    work = attempt(Codex())
    transcript = work.run(endpoint.openai_url, tools="all", model="gpt-5.5")
    assert (work.workdir / "there").read_text() == "hi\n"
    assert (work.workdir / "made").read_text() == "hello\n"
    assert work.journal == [("add", {"a": 1, "b": 2})]
    calls = [call.function for message in transcript.messages for call in message.tool_calls]
    assert [call.name for call in calls] == ["exec_command", "apply_patch", "add"]
    assert (calls[1].arguments, transcript.fault) == ({"input": PATCH}, None)


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (Fault(status=401), "401"),
        (Fault(status=429, after=1), "429"),
        (Fault(status=500), "errors"),
        (Fault(cut=3, after=1), "disconnected"),
    ],
)
def test_an_endpoint_that_fails_is_a_fault(
    attempt: Make, endpoint: ModelEndpoint, fault: Fault, words: str
) -> None:
    endpoint.fault = fault
    work = attempt(Codex())
    transcript = work.run(endpoint.openai_url, options=AT_ONCE)
    assert transcript.fault is not None
    assert transcript.fault.kind == "endpoint_error"
    assert words in transcript.fault.detail
    assert (transcript.answer, len(work.journal)) == (None, 2 * fault.after)


def test_an_endpoint_that_recovers_is_none(attempt: Make, endpoint: ModelEndpoint) -> None:
    endpoint.fault = Fault(status=500, first=1)
    transcript = attempt(Codex()).run(endpoint.openai_url)
    assert transcript.fault is None
    check_conversation(transcript)
    check_usage(transcript, endpoint)


def test_a_full_context_is_the_agents_own_failure(attempt: Make, endpoint: ModelEndpoint) -> None:
    endpoint.fault = Fault(status=400, code="context_length_exceeded", after=1)
    work = attempt(Codex())
    transcript = work.run(endpoint.openai_url, options=AT_ONCE)
    assert (transcript.fault, transcript.answer) == (None, None)
    assert work.journal == JOURNAL[:2]


def test_a_server_that_does_not_start_is_a_fault(attempt: Make, endpoint: ModelEndpoint) -> None:
    work = attempt(Codex())
    work.server = McpServer("desk", ("/nowhere/at-all",), ("add",))
    transcript = work.run(endpoint.openai_url)
    assert transcript.fault is not None
    assert transcript.fault.kind == "server_not_connected"
    assert "desk: No such file" in transcript.fault.detail
    assert endpoint.requests == []


def test_a_tool_that_is_not_approved_is_a_fault(attempt: Make, endpoint: ModelEndpoint) -> None:
    def ask_first(home: Path) -> None:
        config = home / ".codex" / "config.toml"
        text = config.read_text()
        setting = '"default_tools_approval_mode" = "approve"'
        assert setting in text
        config.write_text(text.replace(setting, '"default_tools_approval_mode" = "prompt"'))

    work = attempt(Codex())
    transcript = work.run(endpoint.openai_url, spoil=ask_first)
    assert (work.journal, transcript.answer) == ([], "3 and 7.")
    assert transcript.fault is not None
    assert transcript.fault.kind == "approval_needed"


def test_a_configuration_that_it_refuses_is_a_fault(attempt: Make, endpoint: ModelEndpoint) -> None:
    def unknown_setting(home: Path) -> None:
        config = home / ".codex" / "config.toml"
        config.write_text(f"no_such_setting = 1\n{config.read_text()}")

    transcript = attempt(Codex()).run(endpoint.openai_url, spoil=unknown_setting)
    assert transcript.fault is not None
    assert transcript.fault.kind == "bad_option"
    assert "no_such_setting" in transcript.fault.detail


def test_what_it_did_until_it_was_ended_is_told(attempt: Make, endpoint: ModelEndpoint) -> None:
    gate = Gate()
    endpoint.fault = Fault(gate=gate, after=1)
    work = attempt(Codex())
    process = work.start(endpoint.openai_url)
    arrived = gate.arrived.wait(60)
    wait_for_results(work)
    transcript = work.finish(process, stop=True)
    assert arrived, work.output.stderr.read_text()
    assert [m.content for m in transcript.messages] == ["Adding.", "3", "7"]
    assert (transcript.answer, transcript.fault) == (None, None)
    sent = endpoint.requests[0].usage
    assert sent is not None
    assert transcript.usage is not None
    assert (transcript.usage.input_tokens, transcript.usage.model_calls) == (sent.input, 1)


def wait_for_results(work: Attempt) -> None:
    """Wait until it has written two results down, which it does beside its next request."""
    deadline = monotonic() + 40
    while monotonic() < deadline:
        told = work.agent.read(work.output, work.server)
        if told.usage is not None and len([m for m in told.messages if m.role == "tool"]) == 2:
            return


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Attempt:
    """An attempt that is over, to spoil copies of what it left."""
    work = Attempt(tmp_path_factory.mktemp("codex") / "attempt", Codex())
    with ModelEndpoint([script()]) as endpoint:
        check_conversation(work.run(endpoint.openai_url))
    return work


@settings(max_examples=60, deadline=None)
@given(changes=CHANGES)
def test_reading_survives_whatever_is_left(finished: Attempt, changes: Changes) -> None:
    transcript = read_spoiled(finished.agent, finished.output, finished.server, changes)
    assert len(transcript.messages) <= 20


def test_answers_without_usage_are_kept_apart(finished: Attempt, tmp_path: Path) -> None:
    left = replace(finished.output, home=tmp_path / "home")
    shutil.copytree(finished.home, left.home)
    (rollout,) = left.home.glob(ROLLOUT)
    lines = [line for line in rollout.read_bytes().splitlines(True) if b'"token_usage_record"' not in line]
    rollout.write_bytes(b"".join(lines))
    transcript = finished.agent.read(left, finished.server)
    check_conversation(transcript)
    assert transcript.usage is None


@pytest.mark.parametrize("trap", [Path.mkdir, os.mkfifo, lambda path: path.symlink_to("/dev/zero")])
def test_reading_falls_into_no_trap(
    finished: Attempt, tmp_path: Path, trap: Callable[[Path], object]
) -> None:
    left = replace(finished.output, home=tmp_path / "home")
    shutil.copytree(finished.home, left.home)
    (rollout,) = left.home.glob(ROLLOUT)
    rollout.unlink()
    trap(rollout)
    assert finished.agent.read(left, finished.server).messages == []


def test_a_program_that_is_missing_or_broken_is_named(tmp_path: Path) -> None:
    with pytest.raises(MissingDependencyError, match="npm install -g @openai/codex"):
        Codex().find({"PATH": str(tmp_path)})
    program = tmp_path / "codex"
    program.write_text("#!/bin/sh\necho 'something is wrong' >&2\nexit 3\n")
    program.chmod(0o755)
    with pytest.raises(MissingDependencyError, match=r"exit code 3.*something is wrong.*npm install"):
        Codex().find({"PATH": str(tmp_path)})


def test_the_version_is_the_pinned_one(tmp_path: Path) -> None:
    pinned = json.loads((NODE / "package.json").read_text())["dependencies"]["@openai/codex"]
    found = Codex().find(node_environ(tmp_path))
    assert (found.version, Path(found.executable).name) == (pinned, "codex")


def test_the_users_own_endpoint_is_used(attempt: Make, endpoint: ModelEndpoint, key: str) -> None:
    work = attempt(Codex(), environ={"CODEX_API_KEY": key, "OPENAI_BASE_URL": endpoint.openai_url})
    check_conversation(work.run(None))


def test_without_a_login_it_is_not_started(attempt: Make) -> None:
    with pytest.raises(BenchError, match="CODEX_API_KEY or OPENAI_API_KEY"):
        attempt(Codex(), environ={"ANTHROPIC_API_KEY": "another"}).start(None)


@pytest.mark.parametrize("value", ["-1", "many", "1000", "²"])
def test_a_number_that_makes_no_sense_is_refused(attempt: Make, value: str) -> None:
    with pytest.raises(BenchError, match="max_retries"):
        attempt(Codex()).start("http://127.0.0.1:9/v1", options={"max_retries": value})


@pytest.mark.parametrize(("isolated", "mode"), [(False, "workspace-write"), (True, "danger-full-access")])
def test_its_own_sandbox_is_left_out_within_another(tmp_path: Path, isolated: bool, mode: str) -> None:
    server, found = McpServer("bench", ("server",), ("add",)), Installation("codex", "1")
    environ = {"OPENAI_API_KEY": "dummy"}
    request = LaunchRequest(
        "p", tmp_path, tmp_path, server, found, tools="all", environ=environ, isolated=isolated
    )
    Codex().prepare(request)
    assert f'sandbox_mode = "{mode}"' in (tmp_path / ".codex/config.toml").read_text()
