"""`mcp-bench install` in the files of others: an agent writes them, too, and a server may have our name."""

import json
import os
import time
import tomllib
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from mcp_bench.plugins.install import json_file, toml_file
from mcp_bench.plugins.install.cli import install
from mcp_bench.plugins.install.places import SETTINGS
from mcp_bench.servers.errors import BenchError, WrongUseError
from tests.support.requirements import needs

pytestmark = pytest.mark.unit

MOVES = ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "GEMINI_CLI_HOME", "QWEN_HOME", "XDG_CONFIG_HOME")


def invoke(home: Path, *args: str, **environ: str) -> Result:
    env = dict.fromkeys((*MOVES, "MCP_BENCH_HOME"), None) | {"HOME": str(home)} | environ
    return CliRunner().invoke(install, args, env=env)


def run(home: Path, *args: str, **environ: str) -> str:
    done = invoke(home, *args, **environ)
    assert done.exit_code == 0, (done.output, done.exception)
    return done.stdout


class Busy:
    """An agent that writes its file while ours is being edited."""

    def __init__(self, path: Path, edit: Any, times: int) -> None:
        self.path, self.edit, self.times = path, edit, times
        self.written = 0

    def __call__(self, *args: Any) -> str:
        if self.written < self.times:
            self.written += 1
            self.path.write_text(self.text())
        edited: str = self.edit(*args)
        return edited

    def text(self) -> str:
        if self.path.suffix == ".toml":
            return f'login = "{self.written}"\n[mcp_servers.new]\ncommand = "x"\n'
        return json.dumps({"login": str(self.written), "mcpServers": {"new": {"command": "x"}}})


@pytest.mark.parametrize(("agent", "form"), [("claude-code", json_file), ("codex", toml_file)])
@pytest.mark.parametrize("before", ["", "old = 1\n"])
def test_what_the_agent_writes_meanwhile_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, agent: str, form: Any, before: str
) -> None:
    path = tmp_path / SETTINGS[agent].user
    path.parent.mkdir(exist_ok=True)
    if before:
        path.write_text(before if form is toml_file else '{"old": 1}')
    busy = Busy(path, form.put, times=2)
    monkeypatch.setattr(form, "put", busy)
    assert "added bench" in run(tmp_path, agent)
    content = form.read(path.read_text())
    assert content["login"] == "2" and set(content[SETTINGS[agent].table]) == {"bench", "new"}
    busy = Busy(path, form.remove, times=2)
    monkeypatch.setattr(form, "put", busy.edit)
    monkeypatch.setattr(form, "remove", busy)
    assert "has no bench" in run(tmp_path, agent, "--remove")  # the agent removed it
    assert path.read_text() == busy.text()


def test_a_file_that_changes_all_the_time_is_left_to_the_agent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / ".claude.json"
    busy = Busy(path, json_file.put, times=1000)
    monkeypatch.setattr(json_file, "put", busy)
    done = invoke(tmp_path, "claude-code")
    assert isinstance(done.exception, BenchError)
    assert str(done.exception) == (
        f"{path} is unchanged: the agent keeps writing it; end the agent and try again"
    )
    assert path.read_text() == busy.text() and busy.written < 100


def test_a_large_file_takes_no_time(tmp_path: Path) -> None:
    """Claude Code's own has a history of every project, and is written again and again meanwhile."""
    path = tmp_path / ".claude.json"
    projects = {f"/work/{n}": {"history": ['what "is" // this? ' * 4] * 5} for n in range(600)}
    content = {"projects": projects, "mcpServers": {"other": {"command": "x"}}}
    path.write_text(json.dumps(content, indent=2))
    assert path.stat().st_size > 250_000
    run(tmp_path, "gemini")  # imports what it needs
    start = time.process_time()
    run(tmp_path, "claude-code")
    run(tmp_path, "claude-code", "--remove")
    assert time.process_time() - start < 3
    assert path.read_text() == json.dumps(content, indent=2)


FOREIGN = {
    "a command": {"command": "/usr/bin/my-bench-tool", "args": ["--db", "prod"], "env": {"TOKEN": "s3cret"}},
    "a list": {"type": "local", "command": ["/usr/bin/my-bench-tool", "connect"]},
    "a url": {"url": "https://example.org/mcp"},
    "recorded by us": {"command": "mcp-bench", "args": ["proxy", "my-bench-tool"]},
    "no command": {},
    "a disabled one": {"enabled": False},
    "a number": {"args": 5},
    "odd arguments": {"command": 7, "args": {"connect": "--entry"}},
    "a text": "mcp-bench connect",
}


@pytest.mark.parametrize("entry", FOREIGN.values(), ids=FOREIGN)
@pytest.mark.parametrize("agent", ["claude-code", "codex", "opencode"])
def test_another_server_of_that_name_stays(tmp_path: Path, agent: str, entry: Any) -> None:
    settings = SETTINGS[agent]
    path = tmp_path / settings.user
    path.parent.mkdir(parents=True, exist_ok=True)
    form: Any = toml_file if path.suffix == ".toml" else json_file
    text = form.dumped((settings.table, "bench"), entry)
    path.write_text(text)
    for options in ([], ["--print"], ["--remove"]):
        error = invoke(tmp_path, agent, *options).exception
        assert isinstance(error, WrongUseError) and error.exit_code == 2
        assert f"{path} is unchanged: {settings.table}.bench is another server" in str(error)
        assert "choose another name with --name" in str(error)
        assert path.read_text() == text
    run(tmp_path, agent, "--name", "mine")
    content = form.read(path.read_text())[settings.table]
    assert content["bench"] == entry and set(content) == {"bench", "mine"}
    run(tmp_path, agent, "--name", "mine", "--remove")
    assert form.read(path.read_text()) == form.read(text)


OURS = {
    "by hand": {"command": "mcp-bench", "args": ["connect"]},
    "with a path": {"type": "stdio", "command": "/old/venv/bin/mcp-bench", "args": ["connect", "bfcl"]},
    "with uvx": {"command": "uvx", "args": ["--from", "mcp-bench-kit", "mcp-bench", "connect"]},
    "as a module": {"command": "python", "args": ["-m", "mcp_bench.bridge.cli.root", "connect"]},
    "in one list": {"type": "local", "command": ["mcp-bench", "connect", "--entry", "t"]},
    "through a script": {"command": "/home/me/bench.sh", "args": ["connect", "saasworld", "--entry", "t"]},
}


@pytest.mark.parametrize("entry", OURS.values(), ids=OURS)
def test_our_server_is_known_however_it_is_written(tmp_path: Path, entry: Any) -> None:
    path = tmp_path / ".claude.json"
    for options, word in (((), "changed bench"), (("--remove",), "removed bench")):
        path.write_text(json.dumps({"mcpServers": {"bench": entry}}))
        assert word in run(tmp_path, "claude-code", *options)


@pytest.mark.parametrize(
    ("agent", "variable", "file"),
    [
        ("claude-code", "CLAUDE_CONFIG_DIR", ".claude.json"),
        ("codex", "CODEX_HOME", "config.toml"),
        ("gemini", "GEMINI_CLI_HOME", ".gemini/settings.json"),
        ("opencode", "XDG_CONFIG_HOME", "opencode/opencode.json"),
        ("qwen-code", "QWEN_HOME", "settings.json"),
        ("vscode", "XDG_CONFIG_HOME", "Code/User/mcp.json"),
    ],
)
def test_a_moved_folder_is_found(tmp_path: Path, agent: str, variable: str, file: str) -> None:
    elsewhere = tmp_path / "elsewhere"
    assert f"added bench to {elsewhere / file}" in run(tmp_path, agent, **{variable: str(elsewhere)})
    assert (elsewhere / file).is_file() and list(tmp_path.iterdir()) == [elsewhere]


MIXED = {
    "claude-code": b'{\r\n  "a": 1, // one\n  "b": [], /* two\n */\r\n'
    b'  "mcpServers": {\n    "x": {}\r\n  }\n}\r\n',
    "codex": b'a = 1 # one\r\nb = 2\n\n[mcp_servers.x]\r\n# end\r\n[tui]\nt = """\r\nx\n"""\n',
}


@pytest.mark.parametrize(("agent", "before"), MIXED.items(), ids=MIXED)
def test_every_line_keeps_its_own_end(tmp_path: Path, agent: str, before: bytes) -> None:
    path = tmp_path / SETTINGS[agent].user
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(before)
    run(tmp_path, agent)
    lines = iter(path.read_bytes().splitlines(keepends=True))
    new = [line for line in path.read_bytes().splitlines(keepends=True) if line not in before]
    assert all(line in lines for line in before.splitlines(keepends=True))
    assert b"connect" in b"".join(new) and all(line.endswith(b"\r\n") for line in new)
    run(tmp_path, agent, "--remove")
    assert path.read_bytes().rstrip() == before.rstrip()


@needs("root", os.geteuid() == 0, "only root can write for another user")
def test_the_file_stays_its_owners(tmp_path: Path) -> None:
    """With `sudo`, it would be root's, and closed to the agent."""
    path = tmp_path / ".codex/config.toml"
    path.parent.mkdir()
    path.write_text("a = 1\n")
    path.chmod(0o640)
    os.chown(path, 12345, 23456)
    run(tmp_path, "codex")
    found = path.stat()
    assert (found.st_uid, found.st_gid, found.st_mode & 0o777) == (12345, 23456, 0o640)
    assert tomllib.loads(path.read_text())["a"] == 1
