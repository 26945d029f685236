"""What the plugin of agents over ACP prepares: the plan of our client, and the logins that the agent is lent."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mcp_bench.plugins.acp.agent import PLAN, Acp
from mcp_bench.plugins.contracts import Installation, LaunchRequest, McpServer
from mcp_bench.servers.errors import WrongUseError

pytestmark = pytest.mark.unit

Prepare = Callable[..., dict[str, Any]]


@pytest.fixture
def prepare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Prepare:
    """Return a function that prepares a launch in a folder with `agent.py`, and returns the plan."""
    own, home = tmp_path / "own", tmp_path / "home"
    for path in (own / ".codex/auth.json", own / "agent.py", own / "acp"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    home.mkdir()
    monkeypatch.chdir(own)

    def made(command: str, executable: str = "/opt/program", **options: str) -> dict[str, Any]:
        options["command"] = command
        request = LaunchRequest(
            prompt="x",
            home=home,
            workdir=home,
            server=McpServer("desk", ("server",), ("add",)),
            installation=Installation(executable, "1"),
            options=options,
            environ={"HOME": str(own), "ANTHROPIC_API_KEY": "none"},
        )
        Acp().for_options(options).prepare(request)
        plan: dict[str, Any] = json.loads((home / PLAN).read_text())
        return plan

    return made


def test_a_relative_command_is_one_of_this_folder(prepare: Prepare, tmp_path: Path) -> None:
    """The agent starts in another one. A word that only happens to be a file's name stays."""
    script = str(tmp_path / "own/agent.py")
    assert prepare("./agent.py acp", script)["command"] == [script, "acp"]
    (tmp_path / "home/command-0").unlink()
    (tmp_path / "home/command-1").unlink()
    assert prepare("python agent.py -v", "/opt/python")["command"] == ["/opt/python", script, "-v"]


def test_a_login_file_may_be_named_twice(prepare: Prepare, tmp_path: Path) -> None:
    """The profile of codex-acp lends that file already."""
    file = "~/.codex/auth.json"
    assert prepare("codex-acp", login=f"{file},{file}")["command"] == ["/opt/program"]
    assert (tmp_path / "home/.codex/auth.json").readlink() == tmp_path / "own/.codex/auth.json"


def test_a_word_of_the_command_may_be_long(prepare: Prepare) -> None:
    word = "kind" * 100
    assert prepare(f"helper --system {word}")["command"][-1] == word


@pytest.mark.parametrize(
    ("command", "refused"),
    [
        ("claude-agent-acp", "effort"),
        ("gemini --acp", "effort"),
        ("qwen --acp", "effort"),
        ("copilot --acp", "effort"),
        ("some-agent", "max_retries"),
        ("opencode acp", "max_retries"),
    ],
)
def test_an_option_that_would_be_ignored_is_refused(prepare: Prepare, command: str, refused: str) -> None:
    """The recording would say that the agent had worked under it."""
    with pytest.raises(WrongUseError, match=f"agent option {refused}: .*{command.split()[0]}"):
        prepare(command, **{refused: "3"})


@pytest.mark.parametrize(("options", "chosen"), [({}, "default"), ({"effort": "high"}, "high")])
def test_effort_of_opencode_is_an_option_of_its_session(
    prepare: Prepare, options: dict[str, str], chosen: str
) -> None:
    assert prepare("opencode acp", **options)["choices"] == {"effort": chosen}


def test_effort_of_codex_is_in_its_configuration(prepare: Prepare, tmp_path: Path) -> None:
    prepare("codex-acp", effort="high")
    assert 'model_reasoning_effort = "high"' in (tmp_path / "home/.codex/config.toml").read_text()
