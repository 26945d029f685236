"""What is particular about Codex, with the real program. The rest: `test_agent_conformance.py`."""

import os
import shutil
import tomllib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from mcp_bench.plugins.codex.agent import Codex
from mcp_bench.plugins.contracts import Installation, LaunchRequest, McpServer
from mcp_bench.servers.errors import BenchError
from tests.support.agents.agent_attempt import Attempt
from tests.support.agents.agent_cases import PATCH, replace_in
from tests.support.desk.desk_script import JOURNAL, PROMPT, check_conversation
from tests.support.model_endpoint.endpoint import ModelEndpoint
from tests.support.model_endpoint.script import Script, ScriptedCall, Step

pytestmark = pytest.mark.system

Make = Callable[..., Attempt]
ROLLOUT = ".codex/sessions/*/*/*/rollout-*.jsonl"


@pytest.mark.parametrize("model", ["gpt-6.1-sol", "gpt-5.5"])
def test_known_models_get_the_tools_directly(attempt: Make, endpoint: ModelEndpoint, model: str) -> None:
    """By default, Codex gives the first one a script tool instead, and the second one a search."""
    work = attempt(Codex())
    transcript = work.run(endpoint.openai_url, model=model)
    assert work.journal == JOURNAL
    assert transcript.model == model
    check_conversation(transcript)


def test_default_hides_the_tools_behind_a_search(attempt: Make, endpoint: ModelEndpoint) -> None:
    """Why the setting exists: a model that does not search can call nothing, and nothing has failed."""

    def without_setting(home: Path) -> None:
        setting = ', "code_mode" = {"direct_only_tool_namespaces" = ["mcp__desk"]}'
        replace_in(home / ".codex" / "config.toml", setting, "")

    work = attempt(Codex())
    transcript = work.run(endpoint.openai_url, model="gpt-5.5", spoil=without_setting)
    assert "add" not in endpoint.requests[0].tools
    assert (work.journal, transcript.fault) == ([], None)


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


@pytest.fixture
def finished(finished_by: Callable) -> Attempt:
    return finished_by("codex").work


def test_conversation_is_read_without_usage(finished: Attempt, tmp_path: Path) -> None:
    left = replace(finished.output, home=tmp_path / "home")
    shutil.copytree(finished.home, left.home)
    (rollout,) = left.home.glob(ROLLOUT)
    lines = [line for line in rollout.read_bytes().splitlines(True) if b'"token_usage_record"' not in line]
    rollout.write_bytes(b"".join(lines))
    transcript = finished.agent.read(left, finished.server)
    check_conversation(transcript)
    assert transcript.usage is None


@pytest.mark.parametrize("trap", [Path.mkdir, os.mkfifo, lambda path: path.symlink_to("/dev/zero")])
def test_reading_avoids_traps(finished: Attempt, tmp_path: Path, trap: Callable[[Path], object]) -> None:
    left = replace(finished.output, home=tmp_path / "home")
    shutil.copytree(finished.home, left.home)
    (rollout,) = left.home.glob(ROLLOUT)
    rollout.unlink()
    trap(rollout)
    assert finished.agent.read(left, finished.server).messages == []


@pytest.mark.parametrize("value", ["-1", "many", "1000", "²"])
def test_max_retries_has_to_be_a_small_number(attempt: Make, value: str) -> None:
    with pytest.raises(BenchError, match="max_retries"):
        attempt(Codex()).start("http://127.0.0.1:9/v1", options={"max_retries": value})


@pytest.mark.parametrize("native", [False, True])
def test_max_retries_that_would_be_ignored_is_refused(tmp_path: Path, native: bool) -> None:
    server, found = McpServer("bench", ("server",), ("add",)), Installation("codex", "1")
    request = LaunchRequest(
        "p", tmp_path, tmp_path, server, found, native=native,
        options={"max_retries": "3"}, environ={"CODEX_API_KEY": "dummy"},
    )  # fmt: skip
    with pytest.raises(BenchError, match=r"agent option max_retries: .*--base-url"):
        Codex().prepare(request)
    launch = Codex().prepare(replace(request, base_url="http://127.0.0.1:9/v1"))
    config = " ".join(launch.argv) if native else (tmp_path / ".codex/config.toml").read_text()
    assert '"request_max_retries" = 3' in config


@pytest.mark.parametrize(("isolated", "mode"), [(False, "workspace-write"), (True, "danger-full-access")])
def test_sandbox_is_off_inside_another(tmp_path: Path, isolated: bool, mode: str) -> None:
    server, found = McpServer("bench", ("server",), ("add",)), Installation("codex", "1")
    environ = {"OPENAI_API_KEY": "dummy"}
    request = LaunchRequest(
        "p", tmp_path, tmp_path, server, found, tools="all", environ=environ, isolated=isolated
    )
    Codex().prepare(request)
    assert f'sandbox_mode = "{mode}"' in (tmp_path / ".codex/config.toml").read_text()


def test_any_instructions_make_a_valid_configuration(tmp_path: Path) -> None:
    server, found = McpServer("bench", ("server",), ("add",)), Installation("codex", "1")
    text = "".join(map(chr, range(0x100))) + "\u2028\U0001f600"
    request = LaunchRequest(
        "p", tmp_path, tmp_path, server, found, system=text, environ={"OPENAI_API_KEY": "dummy"}
    )
    Codex().prepare(request)
    written = tomllib.loads((tmp_path / ".codex/config.toml").read_text())
    assert written["developer_instructions"] == text
