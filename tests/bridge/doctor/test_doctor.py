"""`mcp-bench doctor`: findings and exit codes on a simulated machine."""

import json
import os
import socket
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from mcp_bench.servers.extras import install_extra, install_trainer
from mcp_bench.servers.registry import load
from tests.support.agents.node_clis import NODE, node_environ
from tests.support.machines.doctor_machine import Listener, program, third_party
from tests.support.machines.plain_install import hide

pytestmark = pytest.mark.system

KEY = "dummy-key-0123456789"
NODE_PACKAGES = {
    "claude-code": "@anthropic-ai/claude-code",
    "codex": "@openai/codex",
    "gemini": "@google/gemini-cli",
    "opencode": "opencode-ai",
    "qwen-code": "@qwen-code/qwen-code",
}


@pytest.fixture(autouse=True)
def nowhere(bench) -> None:
    """Route remote endpoints through a proxy that does not exist."""
    bench.environ |= {"HTTPS_PROXY": "http://127.0.0.1:1", "NO_PROXY": "127.0.0.1"}


@pytest.fixture
def bin_folder(bench, tmp_path: Path) -> Path:
    """The only folder on PATH, still empty. Only our plugins are installed."""
    folder = tmp_path / "bin"
    folder.mkdir()
    bench.environ |= {"PATH": str(folder), "PYTHONPATH": ""}
    return folder


@pytest.fixture
def listener():
    with Listener() as running:
        yield running


def document(bench, *args: str, code: int) -> dict:
    return json.loads(bench.run("doctor", *args, "--json", code=code).stdout)


def findings(result: dict, subject: str) -> dict[str, dict]:
    return {row["check"]: row for row in result["findings"] if row["subject"] == subject}


@pytest.mark.parametrize("agent", ["codex", "claude-code"])
def test_a_real_agent_with_login_and_endpoint_is_ready(bench, listener: Listener, agent: str) -> None:
    bench.environ |= node_environ(bench.home.parent)
    bench.environ |= {"OPENAI_API_KEY": KEY, "ANTHROPIC_API_KEY": KEY}
    listener.status = 401
    url = f"http://{KEY}:{KEY}@127.0.0.1:{listener.port}/v1?key={KEY}"
    done = bench.run("doctor", agent, "--base-url", url, "--json")
    result = json.loads(done.stdout)
    assert (result["well"], result["ready"]) == (True, [agent])
    found = findings(result, agent)
    assert {check: row["level"] for check, row in found.items() if check != "node"} == dict.fromkeys(
        ("program", "version", "login", "endpoint"), "ok"
    )
    assert found["program"]["text"].startswith(load("agent", agent).needs.tested)
    assert "API_KEY is set" in found["login"]["text"]
    assert f"http://127.0.0.1:{listener.port}/v1 answers (HTTP 401)" in found["endpoint"]["text"]
    (request,) = listener.requests
    assert request.startswith("GET /v1 HTTP/1.1")
    assert KEY not in request + done.stdout + done.stderr and "authorization" not in request.lower()


def test_missing_agents_say_how_to_install_them(bench, bin_folder: Path) -> None:
    done = bench.run("doctor", code=1)
    for package in ("@openai/codex", "@anthropic-ai/claude-code", "opencode-ai"):
        assert f"-> install it with: npm install -g {package}" in done.stdout
    assert "its first task is simple-candidate-stage.1.train.0" in done.stdout
    assert "set OPENAI_API_KEY or ANTHROPIC_API_KEY" in done.stdout
    assert "  unset    login: none was found" in done.stdout
    assert "No agent that uses a model is ready: install one, or log in to one." in done.stdout
    named = document(bench, "codex", code=1)
    assert findings(named, "codex")["program"]["level"] == "problem"
    assert {row["kind"] for row in named["findings"]} == {"machine", "agent"}


def test_one_working_agent_is_enough(bench, bin_folder: Path, listener: Listener) -> None:
    """Agents that use no model do not count, unless they are named."""
    program(bin_folder, "opencode", "echo 1.18.33")
    bench.environ["OPENCODE_API_KEY"] = KEY
    result = document(bench, code=0)
    assert result["ready"] == ["opencode"]
    assert findings(result, "noop")["program"]["level"] == "ok"
    assert findings(result, "codex")["program"]["level"] == "hint"
    assert findings(result, "chat")["login"]["level"] == "unset"
    assert findings(result, "agentdojo")["tasks"]["level"] == "ok"
    assert document(bench, "opencode", "codex", code=1)["ready"] == ["opencode"]
    assert document(bench, "noop", code=0)["ready"] == ["noop"]


@pytest.mark.parametrize(
    ("version", "level", "words"),
    [
        ("0.169.0", "ok", "is the tested version"),
        ("0.169.1", "hint", "newer than 0.169.0"),
        ("0.170.0-alpha.2", "hint", "newer than 0.169.0"),
        ("0.99.12", "hint", "older than 0.169.0"),
    ],
)
def test_an_untested_version_is_a_hint(
    bench, bin_folder: Path, listener: Listener, version: str, level: str, words: str
) -> None:
    program(bin_folder, "codex", f"echo codex-cli {version}")
    program(bin_folder, "node", "echo v22.1.0")
    result = document(bench, "codex", "--base-url", listener.url, code=0)
    row = findings(result, "codex")["version"]
    assert row["level"] == level and words in row["text"]
    assert ("install 0.169.0" in row["advice"]) == (level == "hint")


def test_the_tests_run_the_tested_versions() -> None:
    pinned = json.loads((NODE / "package.json").read_text())["dependencies"]
    for agent, package in NODE_PACKAGES.items():
        assert load("agent", agent).needs.tested == pinned[package]


def test_a_program_that_does_not_start_is_a_problem(bench, bin_folder: Path) -> None:
    program(bin_folder, "codex", "echo cannot find my parts >&2; exit 3")
    row = findings(document(bench, "codex", code=1), "codex")["program"]
    assert row["level"] == "problem" and "cannot find my parts" in row["text"]
    assert "npm install -g @openai/codex" in row["advice"]


def test_a_node_that_is_too_old_is_a_problem(bench, bin_folder: Path, listener: Listener) -> None:
    program(bin_folder, "qwen", "echo 0.24.4")
    program(bin_folder, "node", "echo v20.20.2")
    row = findings(document(bench, "qwen-code", "--base-url", listener.url, code=1), "qwen-code")["node"]
    assert row["level"] == "problem" and "20.20.2" in row["text"] and "Node.js 22 or newer" in row["advice"]


def test_a_login_file_is_found_but_not_read(bench, bin_folder: Path, listener: Listener) -> None:
    program(bin_folder, "codex", "echo 0.169.0")
    program(bin_folder, "node", "echo v22.1.0")
    row = findings(document(bench, "codex", code=1), "codex")["login"]
    assert row["level"] == "problem"
    assert "set CODEX_API_KEY or OPENAI_API_KEY, or run `codex login`" in row["advice"]
    for folder, variable in (
        (bench.home.parent / ".codex", None),
        (bench.home.parent / "moved", "CODEX_HOME"),
    ):
        folder.mkdir()
        file = folder / "auth.json"
        file.write_text(f'{{"token": "{KEY}"}}')
        os.utime(file, (1, 2))  # so old that reading would update it, even with `relatime`
        if variable:
            bench.environ[variable] = str(folder)
        done = bench.run("doctor", "codex", code=1)
        assert f"ok       login: the file {file} exists" in done.stdout and KEY not in done.stdout
        assert file.stat().st_atime == 1
    result = document(bench, "codex", "--base-url", listener.url, code=0)
    assert findings(result, "codex")["login"]["level"] == "hint"  # not sent there, and perhaps not needed


def test_the_default_endpoint_uses_the_users_proxy(bench, bin_folder: Path, listener: Listener) -> None:
    program(bin_folder, "claude", "echo 2.1.329")
    bench.environ |= {"HTTPS_PROXY": listener.url, "CLAUDE_CODE_OAUTH_TOKEN": KEY}
    listener.status = 403
    result = document(bench, "claude-code", code=1)
    assert findings(result, "claude-code")["login"]["text"] == "CLAUDE_CODE_OAUTH_TOKEN is set"
    row = findings(result, "claude-code")["endpoint"]
    assert row["level"] == "problem" and "HTTPS_PROXY" in row["advice"]
    (request,) = listener.requests
    assert request.startswith("CONNECT api.anthropic.com:443") and KEY not in request
    result = document(
        bench, "claude-code", "--base-url", listener.url, code=0
    )  # that login is not sent there
    assert findings(result, "claude-code")["login"]["level"] == "hint"


def test_a_proxy_that_sealed_agents_do_not_get_is_a_hint(bench, listener: Listener) -> None:
    bench.environ["HTTP_PROXY"] = listener.url
    row = findings(document(bench, "chat", "--base-url", "http://model.example/v1", code=0), "chat")[
        "endpoint"
    ]
    assert (row["level"], "--home native" in row["advice"]) == ("hint", True)


def test_the_agents_own_variable_names_the_endpoint(bench, bin_folder: Path, listener: Listener) -> None:
    program(bin_folder, "claude", "echo 2.1.329")
    bench.environ |= {"ANTHROPIC_BASE_URL": listener.url, "ANTHROPIC_API_KEY": KEY}
    result = document(bench, "claude-code", code=0)
    assert f"{listener.url} answers" in findings(result, "claude-code")["endpoint"]["text"]
    assert len(listener.requests) == 1


def test_endpoints_that_do_not_work(bench, listener: Listener) -> None:
    with closing(socket.socket()) as unused:
        unused.bind(("127.0.0.1", 0))
        nobody = f"http://127.0.0.1:{unused.getsockname()[1]}"
        for url, words in {
            nobody: "cannot be reached",
            listener.url.replace("http", "https"): "cannot be reached",
            "ftp://127.0.0.1/": "its URL is not valid",
            "http://[": "its URL is not valid",
            "http://127.0.0.1:99999/": "its URL is not valid",
        }.items():
            row = findings(document(bench, "chat", "--base-url", url, code=1), "chat")["endpoint"]
            assert row["level"] == "problem" and words in row["text"] and row["advice"], url


def test_a_server_error_is_a_hint_and_redirects_are_not_followed(bench, listener: Listener) -> None:
    listener.status = 503
    row = findings(document(bench, "chat", "--base-url", listener.url, code=0), "chat")["endpoint"]
    assert row["level"] == "hint" and "HTTP 503" in row["text"]
    listener.status, listener.headers = 302, f"Location: {listener.url}/elsewhere\r\n"
    row = findings(document(bench, "chat", "--base-url", listener.url, code=0), "chat")["endpoint"]
    assert row["level"] == "ok" and len(listener.requests) == 2


def test_a_node_that_does_not_start_is_a_problem_of_node(bench, bin_folder: Path, listener: Listener) -> None:
    program(bin_folder, "qwen", "echo 0.24.4")
    (bin_folder / "node").write_text("#!/missing/interpreter\n")
    (bin_folder / "node").chmod(0o755)
    row = findings(document(bench, "qwen-code", "--base-url", listener.url, code=1), "qwen-code")["node"]
    assert "does not start: No such file" in row["text"] and "Node.js 22" in row["advice"]


def test_devin_refuses_an_endpoint(bench, bin_folder: Path, listener: Listener) -> None:
    program(bin_folder, "devin", "echo devin 1.0")
    row = findings(document(bench, "devin", "--base-url", listener.url, code=1), "devin")["endpoint"]
    assert "leave out --base-url" in row["advice"] and listener.requests == []


def test_an_agent_by_its_acp_command(bench, bin_folder: Path) -> None:
    row = findings(document(bench, "acp", code=1), "acp")["program"]
    assert row["level"] == "problem" and "--agent-command" in row["advice"]
    assert "Problems: acp." in bench.run("doctor", "acp", code=1).stdout
    program(bin_folder, "kimi", "echo 2.1.0")
    result = document(bench, "--agent-command", "kimi acp", code=0)
    assert findings(result, "acp")["program"]["text"] == f"2.1.0, {bin_folder / 'kimi'}"
    row = findings(document(bench, "acp", "--agent-command", "other --acp", code=1), "acp")["program"]
    assert row["advice"] == "install it with: the instructions of its makers"
    program(bin_folder, "other", "echo 1.0")
    words = ("acp", "--agent-command", "other --acp", "--base-url", "http://127.0.0.1:1/v1")
    assert findings(document(bench, *words, code=1), "acp")["endpoint"]["advice"] == "leave out --base-url"


BROKEN = """
import sys
import threading
from mcp_bench.plugins.contracts import Capabilities, Installation
from mcp_bench.servers.errors import BenchError

class Loud:
    name, summary, capabilities, options = "loud", "", Capabilities(), {}
    def find(self, environ):
        print("this would spoil the document")
        return Installation("/bin/loud", "9")

class Raises(Loud):
    def find(self, environ):
        raise KeyError("third party")

class Exits(Loud):
    def find(self, environ):
        sys.exit("bye")

class Refuses(Loud):
    def find(self, environ):
        raise BenchError("the licence has run out; buy another")
"""


def test_a_broken_plugin_hides_no_other(bench, tmp_path: Path) -> None:
    names = {"loud": "Loud", "raises": "Raises", "exits": "Exits", "refuses": "Refuses", "gone": "NotThere"}
    third_party(bench, tmp_path, BROKEN, names)
    result = document(bench, *names, "noop", code=1)
    assert result["ready"] == ["loud", "noop"]
    assert "KeyError: 'third party'" in findings(result, "raises")["agent"]["text"]
    assert "SystemExit: bye" in findings(result, "exits")["agent"]["text"]
    assert "AttributeError" in findings(result, "gone")["agent"]["text"]
    row = findings(result, "refuses")["agent"]
    assert (row["text"], row["advice"]) == ("the licence has run out", "buy another")


def test_a_machine_that_cannot_record(bench, tmp_path: Path) -> None:
    bench.environ |= {"MCP_BENCH_HOME": "/proc/1/nowhere"}
    result = document(bench, "noop", code=1)
    assert result["ready"] == ["noop"] and not result["well"]
    assert "MCP_BENCH_HOME" in findings(result, "storage")["home"]["advice"]
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to(tmp_path / "gone")
    for place in (tmp_path / "file", tmp_path / "link", tmp_path / "link/home"):
        bench.environ["MCP_BENCH_HOME"] = str(place)
        row = findings(document(bench, "noop", code=1), "storage")["home"]
        assert (row["level"], "is no folder" in row["text"]) == ("problem", True)
    long = tmp_path / ("long" * 30)
    long.mkdir()
    bench.environ |= {"MCP_BENCH_HOME": str(long / "home"), "TMPDIR": str(long)}
    result = document(bench, "noop", code=1)
    assert findings(result, "storage")["sockets"]["level"] == "hint"
    row = findings(result, "temporary files")["machine"]
    assert row["level"] == "problem" and "Set TMPDIR to a shorter one" in row["advice"]
    assert list(long.iterdir()) == []  # nothing is left, and the home is not created


@pytest.mark.parametrize(
    ("script", "level", "words"),
    [
        (None, "hint", "not on PATH"),
        ("exit 0", "ok", "bubblewrap"),
        ("echo bwrap: No permissions to create new namespace >&2; exit 1", "hint", "No permissions"),
    ],
)
def test_bubblewrap_is_tried(bench, bin_folder: Path, script: str | None, level: str, words: str) -> None:
    if script is not None:
        program(bin_folder, "bwrap", f'[ "$1" = --unshare-all ] && {{ {script}; }}')
    row = findings(document(bench, "noop", code=0), "isolation")["bwrap"]
    assert row["level"] == level and words in row["text"] and bool(row["advice"]) == (level == "hint")


LANDLOCKED = """
import ctypes, os, sys
from mcp_bench.bridge.isolation.support import landlock, landlock_abi
result = landlock_abi()
libc = ctypes.CDLL(None)
rules = (ctypes.c_uint64 * 1)(1 << 2)  # LANDLOCK_ACCESS_FS_READ_FILE
ruleset = libc.syscall(444, rules, ctypes.c_size_t(8), ctypes.c_uint32(0))
libc.prctl(38, 1, 0, 0, 0)  # PR_SET_NO_NEW_PRIVS
held = ruleset >= 0 and libc.syscall(446, ruleset, ctypes.c_uint32(0)) == 0
try:
    os.close(os.open(sys.argv[1], os.O_RDONLY))
except PermissionError:
    held = held and True
else:
    held = False
os.write(1, f"{bool(result)} {held} {landlock().works}".encode())
"""


def test_landlock_works_if_reported(tmp_path: Path, bench) -> None:
    """Compare the kernel's reported version with the effect of a rule."""
    file = tmp_path / "file"
    file.write_text("x")
    command = [sys.executable, "-c", LANDLOCKED, str(file)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    result, held, works = done.stdout.split()
    assert result == held
    row = findings(document(bench, "noop", code=0), "isolation")["landlock"]
    assert (row["level"] == "ok") == (works == "True")


def test_an_unknown_agent_gets_a_suggestion(bench) -> None:
    assert "did you mean codex?" in bench.run("doctor", "codx", code=2).stderr


OPTIONAL = {"matplotlib", "pyarrow", "zstandard", "tokenizers", "huggingface-hub", "opentelemetry-sdk"}


def test_a_plain_install_is_well_and_names_its_extras(
    bench, bin_folder: Path, tmp_path: Path, listener
) -> None:
    hide(bench, tmp_path / "hidden", {*OPTIONAL, "mcp-bench-trainer"})
    bench.environ["OPENAI_API_KEY"] = KEY
    done = bench.run("doctor", "chat", "--base-url", listener.url)
    assert "Ready: chat." in done.stdout
    result = document(bench, "chat", "--base-url", listener.url, code=0)
    found = findings(result, "extras")
    assert {row["level"] for row in found.values()} == {"info"}
    assert found["report"]["text"] == "matplotlib is not installed; only report --html needs it"
    assert found["report"]["advice"] == install_extra("report")
    assert "train, export-model, serve-model, loop, ablate" in found["trainer"]["text"]
    assert found["trainer"]["advice"] == install_trainer()
    assert "info     report: " in done.stdout


def test_telemetry_that_cannot_be_sent_is_a_problem(bench, tmp_path: Path) -> None:
    hide(bench, tmp_path / "hidden", OPTIONAL)
    bench.environ["OTEL_EXPORTER_OTLP_ENDPOINT"] = "http://127.0.0.1:4318"
    result = document(bench, "noop", code=1)
    row = findings(result, "extras")["otel"]
    assert row["level"] == "problem" and install_extra("otel") in row["advice"]
    assert findings(result, "extras")["report"]["level"] == "info"
