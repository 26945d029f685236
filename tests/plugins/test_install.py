"""`mcp-bench install`: an entry in an agent's own configuration, and nothing else of it touched."""

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from json5 import loads as loads5

from mcp_bench.plugins.install import json_file, toml_file
from mcp_bench.plugins.install.places import SETTINGS
from tests.support.agents.node_clis import node_environ
from tests.support.processes.forked import run_module
from tests.support.task_folders import harbor_task

pytestmark = pytest.mark.system


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


def run(
    home: Path, *args: str, code: int = 0, env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    environ = {"PATH": os.environ["PATH"], "HOME": str(home), **(env or {})}
    argv = ["install", *args]
    done = run_module("mcp_bench.bridge.cli.root", argv, env=environ, cwd=home.parent, timeout=120)
    assert done.returncode == code, (done.stdout, done.stderr)
    return done


CONNECTED = "(stdio) - Connected"
ATTEMPTS = 5
"""Five or ten seconds is what a listing gives a server to start, which a busy machine may need."""

COMMENTED = """{
  // mine
  "theme": "dark", /* really */
  "mcpServers": {
    "other": {"command": "x"}, // keep
  },
}
"""


def test_a_file_that_cannot_be_written_stays_alone(home: Path) -> None:
    """The limit on the size of a file stands for a full disk."""
    path = home / ".gemini/settings.json"
    path.parent.mkdir()
    path.write_text(COMMENTED)
    limited = ["sh", "-c", 'ulimit -f 0; exec "$@"', "sh", sys.executable, "-m", "mcp_bench.bridge.cli.root"]
    done = subprocess.run(
        [*limited, "install", "gemini"],
        env={"PATH": os.environ["PATH"], "HOME": str(home), "PYTHONDONTWRITEBYTECODE": "1"},
        cwd=home.parent, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 1 and f"cannot write {path}: File too large" in done.stderr
    assert path.read_text() == COMMENTED and list(path.parent.iterdir()) == [path]


def test_a_link_beside_the_file_is_not_followed(home: Path) -> None:
    """A repository could bring one, where a temporary file is to be."""
    other = home / "other"
    other.write_text("mine")
    (home.parent / ".codex").mkdir()
    (home.parent / ".codex/.config.toml.new").symlink_to(other)
    run(home, "codex", "--scope", "project", code=1)
    assert other.read_text() == "mine"
    (home.parent / ".codex/.config.toml.new").unlink()
    run(home, "codex", "--scope", "project")
    assert (home.parent / ".codex/config.toml").stat().st_mode & 0o777 == 0o600


def test_other_entries_stay_and_twice_changes_nothing(home: Path) -> None:
    path = home / ".gemini/settings.json"
    path.parent.mkdir()
    path.write_text(COMMENTED)
    path.chmod(0o600)
    assert f"added bench to {path}" in run(home, "gemini").stdout
    after = path.read_text()
    assert [line for line in COMMENTED.splitlines() if line not in after.splitlines()] == []
    assert set(loads5(after)["mcpServers"]) == {"bench", "other"}
    assert path.stat().st_mode & 0o777 == 0o600
    assert "has it already" in run(home, "gemini").stdout
    assert path.read_text() == after
    token = loads5(after)["mcpServers"]["bench"]["args"][-1]
    run(home, "gemini", "--benchmark", "agentdojo")
    assert loads5(path.read_text())["mcpServers"]["bench"]["args"][1:] == ["agentdojo", "--entry", token]
    run(home, "gemini", "--remove")
    assert loads5(path.read_text()) == loads5(COMMENTED)
    assert "// keep" in path.read_text()
    assert "has no bench" in run(home, "gemini", "--remove").stdout


@pytest.mark.parametrize("agent", SETTINGS)
@pytest.mark.parametrize("scope", ["user", "project"])
def test_missing_settings_file_is_created_for_every_agent(home: Path, agent: str, scope: str) -> None:
    settings = SETTINGS[agent]
    path = home / settings.user if scope == "user" else home.parent / str(settings.project)
    shown = run(home, agent, "--scope", scope, "--print")
    assert str(path) in shown.stderr and not path.exists()
    run(home, agent, "--scope", scope)
    read = tomllib.loads if path.suffix == ".toml" else json.loads
    entry = read(path.read_text())[settings.table]["bench"]
    assert set(entry) == set(read(shown.stdout)[settings.table]["bench"])
    command = entry["command"] if isinstance(entry["command"], list) else [entry["command"], *entry["args"]]
    assert Path(command[0]).name == "mcp-bench" and os.access(command[0], os.X_OK)
    assert command[1:4] == ["connect", "saasworld", "--entry"]


@pytest.mark.parametrize("agent", SETTINGS)
def test_a_home_of_ones_own_goes_with_the_entry(home: Path, agent: str) -> None:
    assert "elsewhere" in run(home, agent, "--print", env={"MCP_BENCH_HOME": str(home / "elsewhere")}).stdout


def test_a_relative_home_is_that_of_this_folder(home: Path) -> None:
    """The agent starts the server in its own one."""
    shown = run(home, "codex", "--print", env={"MCP_BENCH_HOME": "recordings"}).stdout
    [stored] = tomllib.loads(shown)["mcp_servers"]["bench"]["env"].values()
    assert Path(stored).is_absolute() and Path(stored).name == "recordings"


def test_a_relative_folder_of_tasks_is_that_of_this_folder(home: Path) -> None:
    harbor_task(home.parent / "tasks/one")
    shown = run(home, "codex", "--benchmark", "harbor:tasks", "--print").stdout
    assert f"harbor:{home.parent / 'tasks'}" in tomllib.loads(shown)["mcp_servers"]["bench"]["args"]


@pytest.mark.parametrize("agent", ["claude-code", "codex", "opencode"])
def test_what_the_user_has_set_stays(home: Path, agent: str) -> None:
    """An entry can be written by hand, or changed later."""
    settings = SETTINGS[agent]
    path = home / settings.user
    path.parent.mkdir(parents=True, exist_ok=True)
    words = ["mcp-bench", "connect", "agentdojo", "--entry", "-a_token", "--split", "train", "--limit=10"]
    words += ["--task", "t"]
    own = {"MCP_BENCH_HOME": "/data/bench", "MORE": "1"}
    name = "environment" if agent == "opencode" else "env"
    command = {"command": words} if agent == "opencode" else {"command": words[0], "args": words[1:]}
    dumped = (toml_file if path.suffix == ".toml" else json_file).dumped
    path.write_text(dumped((settings.table, "bench"), {**command, name: own, "timeout": 90000}))
    read = tomllib.loads if path.suffix == ".toml" else json.loads

    def entry() -> dict[str, Any]:
        found: dict[str, Any] = read(path.read_text())[settings.table]["bench"]
        return found

    def command_of(found: dict[str, Any]) -> list[str]:
        return [*found["command"], *found.get("args", [])] if agent == "opencode" else found["args"]

    assert "changed bench in" in run(home, agent, "--benchmark", "agentdojo").stdout
    same = entry()
    assert (same[name], same["timeout"]) == (own, 90000)
    assert command_of(same)[-7:] == words[3:]
    assert "has it already" in run(home, agent, "--benchmark", "agentdojo").stdout
    run(home, agent, "--benchmark", "saasworld")
    assert command_of(entry())[-5:] == words[3:-2], "tasks are of one benchmark"


def test_the_benchmark_of_an_entry_may_follow_options(home: Path) -> None:
    path = home / ".claude.json"
    written = ["connect", "--limit", "3", "agentdojo", "--task=t"]
    for benchmark, kept in (("agentdojo", ["--limit", "3", "--task=t"]), ("saasworld", ["--limit", "3"])):
        path.write_text(json.dumps({"mcpServers": {"bench": {"command": "mcp-bench", "args": written}}}))
        run(home, "claude-code", "--benchmark", benchmark)
        arguments = json.loads(path.read_text())["mcpServers"]["bench"]["args"]
        assert (arguments[:3], arguments[4:]) == (["connect", benchmark, "--entry"], kept)


def test_a_token_may_be_written_with_an_equals_sign(home: Path) -> None:
    """It is the client: with another one, the agent would begin with the first task again."""
    path = home / ".claude.json"
    script = {"command": "/home/me/bench.sh", "args": ["connect", "agentdojo", "--entry=desk-1"]}
    path.write_text(json.dumps({"mcpServers": {"bench": script}}))
    run(home, "claude-code", "--benchmark", "agentdojo")
    arguments = json.loads(path.read_text())["mcpServers"]["bench"]["args"]
    assert arguments == ["connect", "agentdojo", "--entry", "desk-1"]


def test_a_file_that_cannot_be_understood_is_left_alone(home: Path) -> None:
    path = home / ".claude.json"
    path.write_text('{"mcpServers": [')
    assert f"{path} is unchanged: it is not JSON" in run(home, "claude-code", code=1).stderr
    path.write_text('{"mcpServers": 5}')
    assert "is not an object" in run(home, "claude-code", code=1).stderr
    assert path.read_text() == '{"mcpServers": 5}'


def test_wrong_names_get_near_ones(home: Path) -> None:
    assert "did you mean claude-code" in run(home, "claude", code=2).stderr
    assert "did you mean saasworld" in run(home, "codex", "--benchmark", "sasworld", code=2).stderr
    assert not (home / ".codex").exists()


@pytest.mark.parametrize(
    ("agent", "moved", "listing", "words"),
    [
        ("claude-code", "", "claude mcp list", "✔ Connected"),
        ("codex", "", "codex mcp list --json", '"connect",'),
        pytest.param("gemini", "", "gemini mcp list", CONNECTED, marks=pytest.mark.full),
        pytest.param("gemini", "GEMINI_CLI_HOME", "gemini mcp list", CONNECTED, marks=pytest.mark.full),
        pytest.param("opencode", "", "opencode mcp list", "✓ bench", marks=pytest.mark.full),
        pytest.param("opencode", "XDG_CONFIG_HOME", "opencode mcp list", "✓ bench", marks=pytest.mark.full),
        pytest.param("qwen-code", "", "qwen mcp list", CONNECTED, marks=pytest.mark.full),
        pytest.param("qwen-code", "QWEN_HOME", "qwen mcp list", CONNECTED, marks=pytest.mark.full),
    ],
)
def test_the_real_agent_reads_it_back(home: Path, agent: str, moved: str, listing: str, words: str) -> None:
    elsewhere = {moved: str(home / "elsewhere")} if moved else {}
    run(home, agent, env=elsewhere)
    env = {
        **node_environ(home),
        **elsewhere,
        "DISABLE_AUTOUPDATER": "1",
        "GEMINI_CLI_TRUST_WORKSPACE": "true",  # elsewhere it starts no server, the user's own neither
        "MCP_BENCH_HOME": str(home / "bench"),
        "OPENCODE_DISABLE_AUTOUPDATE": "1",
        "OPENCODE_DISABLE_MODELS_FETCH": "1",
    }
    root = [sys.executable, "-m", "mcp_bench.bridge.cli.root"]
    # they look whether it works, and wait for some seconds only
    subprocess.run([*root, "up"], env=env, capture_output=True, timeout=240, check=True)
    try:
        for _ in range(ATTEMPTS):
            listed = subprocess.run(
                listing.split(), env=env, cwd=home.parent, stdin=subprocess.DEVNULL,
                capture_output=True, text=True, timeout=240,
            )  # fmt: skip
            output = listed.stdout + listed.stderr
            if words in output:
                break
    finally:
        subprocess.run([*root, "down"], env=env, capture_output=True, timeout=240, check=False)
    assert "bench" in output and "connect" in output and words in output, output


KEYS = st.text('ab"\\é/', min_size=1, max_size=3)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=8,
)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])  # a busy machine is no failure
@given(before=st.dictionaries(KEYS, VALUES, max_size=3), table=st.dictionaries(KEYS, VALUES, max_size=3),
       indent=st.sampled_from([None, 2]), value=VALUES.filter(lambda value: value is not None))  # fmt: skip
def test_json_edits_touch_one_place(before: dict, table: dict, indent: int | None, value: object) -> None:
    content = {**before, "servers": table}
    text = json.dumps(content, indent=indent)
    after = json_file.put(text, ["servers", "bench"], value)
    assert json.loads(after) == {**content, "servers": {**table, "bench": value}}
    assert json.loads(json_file.remove(after, ["servers", "bench"])) == content
    assert json_file.get(after, ["servers", "bench"]) == value


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    before=st.dictionaries(st.sampled_from("abc"), st.integers() | st.text("ab é", max_size=3), max_size=3)
)
def test_toml_edits_touch_one_place(before: dict) -> None:
    text = "# mine\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in before.items())
    text += "[servers.other]\ncommand = 'x' # keep\n"
    entry = {"command": "a", "args": ["b", "c"]}
    after = toml_file.put(text, ["servers", "bench"], entry)
    assert tomllib.loads(after) == {**before, "servers": {"other": {"command": "x"}, "bench": entry}}
    assert "# mine" in after and "# keep" in after
    assert tomllib.loads(toml_file.remove(after, ["servers", "bench"])) == tomllib.loads(text)
