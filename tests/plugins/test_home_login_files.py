"""Login files: plugins find them, and lend them without opening or copying."""

import builtins
import io
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from mcp_bench.plugins.acp.agent import Acp
from mcp_bench.plugins.claude_code.agent import ClaudeCode
from mcp_bench.plugins.cli_agent import CliAgent
from mcp_bench.plugins.codex.agent import Codex
from mcp_bench.plugins.contracts import Home, Installation, Launch, LaunchRequest, McpServer
from mcp_bench.plugins.devin.agent import Devin
from mcp_bench.plugins.gemini.agent import Gemini
from mcp_bench.plugins.needs import LoginMissingError
from mcp_bench.plugins.opencode.agent import OpenCode
from mcp_bench.plugins.output import Session
from mcp_bench.plugins.qwen_code.agent import QwenCode
from mcp_bench.servers.errors import WrongUseError

pytestmark = pytest.mark.system

SERVER = McpServer("bench", ("shim",), ("add",))


def prepare(
    agent: Any, folder: Path, environ: Mapping[str, str], home: Home = "sealed", **more: Any
) -> Launch:
    for name in ("home", "work"):
        (folder / name).mkdir(parents=True)
    launch: Launch = agent.prepare(
        LaunchRequest(
            "Do it.",
            folder / "home",
            folder / "work",
            SERVER,
            Installation("agent", "1"),
            environ=environ,
            native=home == "native",
            **more,
        )
    )
    return launch


@pytest.fixture(autouse=True)
def closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail the test if anything in the user's home is opened."""

    def guarded(real: Callable[..., Any]) -> Callable[..., Any]:
        def opened(path: Any, *more: Any, **rest: Any) -> Any:
            if isinstance(path, str | Path) and "/user/" in str(path):
                pytest.fail(f"{path} was opened")
            return real(path, *more, **rest)

        return opened

    for module, name in ((builtins, "open"), (io, "open"), (os, "open")):
        monkeypatch.setattr(module, name, guarded(getattr(module, name)))


def login_file(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    os.mknod(path)  # creates the file without opening it
    return path


LINKED = [
    (Codex(), ".codex/auth.json", {}),
    (Gemini(), ".gemini/oauth_creds.json", {}),
    (OpenCode(), ".local/share/opencode/auth.json", {}),
    (Devin(), ".local/share/devin/credentials.toml", {}),
    (Codex(), "elsewhere/auth.json", {"CODEX_HOME": "elsewhere"}),
    (Gemini(), "elsewhere/.gemini/oauth_creds.json", {"GEMINI_CLI_HOME": "elsewhere"}),
    (OpenCode(), "elsewhere/opencode/auth.json", {"XDG_DATA_HOME": "elsewhere"}),
]


@pytest.mark.parametrize(("agent", "file", "variables"), LINKED)
def test_a_link_to_the_original_is_lent(
    tmp_path: Path, agent: Any, file: str, variables: dict[str, str]
) -> None:
    user = tmp_path / "user"
    original = login_file(user / file)
    environ = {"HOME": str(user), **{name: str(user / folder) for name, folder in variables.items()}}
    launch = prepare(agent, tmp_path / "episode", environ)
    (link,) = (tmp_path / "episode").rglob(original.name)
    assert link.is_symlink() and link.readlink() == original
    assert launch.login is not None
    assert launch.login.paths == (original, original.parent)
    assert str(original) in launch.login.alone
    values = [value for name, value in launch.env.items() if name not in ("CODEX_HOME", "OPENCODE_CONFIG")]
    assert str(user) not in str(values)


def test_gemini_is_told_to_use_the_account(tmp_path: Path) -> None:
    login_file(tmp_path / "user/.gemini/oauth_creds.json")
    login_file(tmp_path / "user/.gemini/google_accounts.json")
    environ = {"HOME": str(tmp_path / "user"), "GOOGLE_CLOUD_PROJECT": "mine"}
    launch = prepare(Gemini(), tmp_path / "episode", environ)
    home = tmp_path / "episode/home/.gemini"
    auth = json.loads((home / "settings.json").read_text())["security"]["auth"]
    assert auth == {"selectedType": "oauth-personal"}
    assert (home / "google_accounts.json").is_symlink()
    assert launch.env["GOOGLE_CLOUD_PROJECT"] == "mine"


def test_claude_code_is_told_where_the_original_lies(tmp_path: Path) -> None:
    original = login_file(tmp_path / "user/.claude/.credentials.json")
    launch = prepare(ClaudeCode(), tmp_path / "episode", {"HOME": str(tmp_path / "user")})
    assert launch.env["CLAUDE_SECURESTORAGE_CONFIG_DIR"] == str(original.parent)
    assert launch.env["CLAUDE_CONFIG_DIR"] == str(tmp_path / "episode/home/.claude")
    assert launch.login is not None and launch.login.alone == ""
    assert list((tmp_path / "episode").rglob("*credentials*")) == []


FILES = {
    "codex": (Codex(), ".codex/auth.json", "OPENAI_API_KEY"),
    "claude": (ClaudeCode(), ".claude/.credentials.json", "CLAUDE_CODE_OAUTH_TOKEN"),
    "gemini": (Gemini(), ".gemini/oauth_creds.json", "GEMINI_API_KEY"),
    "opencode": (OpenCode(), ".local/share/opencode/auth.json", "ANTHROPIC_API_KEY"),
}


@pytest.mark.parametrize("name", FILES)
def test_a_variable_comes_before_the_file(tmp_path: Path, name: str) -> None:
    agent, file, variable = FILES[name]
    login_file(tmp_path / "user" / file)
    environ = {"HOME": str(tmp_path / "user"), variable: "key"}
    launch = prepare(agent, tmp_path / "episode", environ)
    assert launch.login is None
    assert "key" in launch.env.values()
    assert not any(path.is_symlink() for path in (tmp_path / "episode").rglob("*"))


@pytest.mark.parametrize("name", FILES)
def test_an_endpoint_of_ones_own_gets_no_login_file(tmp_path: Path, name: str) -> None:
    agent, file, _ = FILES[name]
    login_file(tmp_path / "user" / file)
    environ = {"HOME": str(tmp_path / "user")}
    launch = prepare(agent, tmp_path / "episode", environ, base_url="http://127.0.0.1:1", model="m")
    assert launch.login is None
    assert "none" in launch.env.values()
    assert "CLAUDE_SECURESTORAGE_CONFIG_DIR" not in launch.env
    assert not any(path.is_symlink() for path in (tmp_path / "episode").rglob("*"))


@pytest.mark.parametrize("name", FILES)
def test_native_launch_lends_no_file_but_still_waits(tmp_path: Path, name: str) -> None:
    agent, file, _ = FILES[name]
    original = login_file(tmp_path / "user" / file)
    before = sorted((tmp_path / "user").rglob("*"))
    launch = prepare(agent, tmp_path / "episode", {"HOME": str(tmp_path / "user")}, "native")
    assert launch.login is not None and launch.login.paths[0] == original
    assert bool(launch.login.alone) == (name != "claude")
    assert not any(path.is_symlink() for path in (tmp_path / "episode").rglob("*"))
    assert sorted((tmp_path / "user").rglob("*")) == before
    assert not {"HOME", "CODEX_HOME", "CLAUDE_CONFIG_DIR", "OPENCODE_CONFIG"} & set(launch.env)


@pytest.mark.parametrize("agent", [Codex(), ClaudeCode(), Gemini(), OpenCode(), QwenCode(), Devin()])
def test_a_directory_is_no_login(tmp_path: Path, agent: Any) -> None:
    for name in (".codex/auth.json", ".claude/.credentials.json", ".local/share/devin/credentials.toml"):
        (tmp_path / "user" / name).mkdir(parents=True)
    with pytest.raises(LoginMissingError):
        prepare(agent, tmp_path / "episode", {"HOME": str(tmp_path / "user")})


def over_acp(tmp_path: Path, command: str, login: str) -> Launch:
    options = {"command": command, "login": login}
    environ = {"HOME": str(tmp_path / "user"), "EMPTY": ""}
    return prepare(Acp().for_options(options), tmp_path / login.replace("/", "-"), environ, options=options)


def test_a_named_file_is_lent_beside_the_agents_own(tmp_path: Path) -> None:
    own = login_file(tmp_path / "user/.gemini/oauth_creds.json")
    named = login_file(tmp_path / "user/.x/key.json")
    lent = over_acp(tmp_path, "gemini --acp", "~/.x/key.json").login
    assert lent is not None and set(lent.paths) == {own, own.parent, named, named.parent}


@pytest.mark.parametrize("word", ["~/", "a/b", "~/../x", "/etc/passwd"])
def test_a_login_over_acp_is_a_file_below_home(tmp_path: Path, word: str) -> None:
    login_file(tmp_path / "user/a/b")
    with pytest.raises(WrongUseError, match="should be a file below your HOME"):
        over_acp(tmp_path, "helper acp", word)


@pytest.mark.parametrize("word", ["MISSPELT_KEY", "EMPTY"])
def test_a_named_variable_has_to_be_set(tmp_path: Path, word: str) -> None:
    with pytest.raises(LoginMissingError, match=f"the variable {word} is not set"):
        over_acp(tmp_path, "helper acp", word)


class Plain(CliAgent[Session]):
    """A third party's agent that says nothing about its endpoint."""

    name = "plain"

    def arguments(self, request: LaunchRequest) -> list[str]:
        return []

    def read_session(self, output: Any, server: Any) -> Session:
        return Session()


def test_an_unknown_way_to_an_endpoint_is_no_bug_of_the_plugin(tmp_path: Path) -> None:
    with pytest.raises(WrongUseError, match="leave out --base-url"):
        prepare(Plain(), tmp_path, {}, base_url="http://127.0.0.1:1/v1")
