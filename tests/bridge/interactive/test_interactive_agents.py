"""The real Claude Code and Codex, with `mcp-bench connect` in their own configuration.

Only the model is fake: a scripted endpoint on 127.0.0.1 calls next_task, replays the reference calls, submits
the answer and calls finish_task.
"""

import json
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from mcp_bench.servers.agentdojo import BENCHMARK
from tests.support.agents.node_clis import node_environ
from tests.support.model_endpoint.endpoint import ModelEndpoint
from tests.support.model_endpoint.script import script_from_reference

pytestmark = pytest.mark.system

KEY = "dummy-key-0123456789"
REQUEST = "Call next_task of the server bench, do what it says, and call finish_task."


@pytest.fixture
def bench_home(bench_home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The default home: Codex does not pass MCP_BENCH_HOME to its servers."""
    home = bench_home.parent / ".local/share/mcp-bench"
    home.mkdir(parents=True)
    monkeypatch.setenv("MCP_BENCH_HOME", str(home))
    return home


@pytest.fixture(scope="module")
def solved() -> Iterator[dict]:
    """The first task, and its reference as interactive calls."""
    task = next(BENCHMARK.tasks())
    reference = BENCHMARK.reference(task.id)
    anyio.run(BENCHMARK.aclose)
    calls = [{"name": call.name, "arguments": call.arguments} for call in reference.calls]
    answer = {"name": "submit_answer", "arguments": {"answer": reference.answer}}
    yield {"task": task, "calls": [{"name": "next_task"}, *calls, answer, {"name": "finish_task"}]}


def claude_code(endpoint: ModelEndpoint, home: Path) -> tuple[list[str], dict[str, str]]:
    # With --mcp-config it waits for the servers before the first model request. A scripted model cannot wait.
    config = (f"--mcp-config={home / '.claude.json'}", "--strict-mcp-config")
    command = ["claude", "--print", *config, "--model=scripted-1", "--allowedTools=mcp__bench", REQUEST]
    environ = {
        "ANTHROPIC_BASE_URL": endpoint.anthropic_url,
        "ANTHROPIC_API_KEY": KEY,
        "ANTHROPIC_DEFAULT_HAIKU_MODEL": "scripted-1",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "ENABLE_TOOL_SEARCH": "false",
        "MCP_CONNECTION_NONBLOCKING": "0",
        "MCP_TIMEOUT": "60000",
    }
    return command, environ


def codex(endpoint: ModelEndpoint, home: Path) -> tuple[list[str], dict[str, str]]:
    (home / ".codex").mkdir()
    provider = f'{{name = "endpoint", base_url = "{endpoint.openai_url}", wire_api = "responses", env_key = "THE_KEY"}}'
    (home / ".codex" / "config.toml").write_text(
        'model = "scripted-1"\nmodel_provider = "endpoint"\ncheck_for_update_on_startup = false\n'
        'analytics = {enabled = false}\nfeatures = {code_mode = {direct_only_tool_namespaces = ["mcp__bench"]}}\n'
        f"model_providers = {{endpoint = {provider}}}\n"
    )
    command = [
        "codex",
        "exec",
        "--skip-git-repo-check",
        "--dangerously-bypass-approvals-and-sandbox",
        REQUEST,
    ]
    return command, {"THE_KEY": KEY}


@pytest.mark.parametrize(
    "name,agent", [("claude-code", claude_code), pytest.param("codex", codex, marks=pytest.mark.full)]
)
def test_real_agent_solves_a_task_interactively(bench, solved: dict, name: str, agent) -> None:
    home = bench.home.parents[2]
    with ModelEndpoint([script_from_reference(REQUEST, solved)], api_key=KEY) as endpoint:
        command, login = agent(endpoint, home)
        bench.environ["HOME"] = str(home)
        bench.run("install", name, "--benchmark", "agentdojo")
        if name == "codex":  # wait for the server, as above
            config = home / ".codex" / "config.toml"
            table = "[mcp_servers.bench]\n"
            assert table in config.read_text()
            config.write_text(config.read_text().replace(table, f"{table}required = true\n"))
        bench.run("up")  # agents wait only some seconds for a server, too few on a busy machine
        environ = {**node_environ(home), **login}
        with tempfile.TemporaryDirectory() as workdir:
            done = subprocess.run(
                command, env=environ, cwd=workdir, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                timeout=240,
            )  # fmt: skip
    assert done.returncode == 0, (done.stdout, done.stderr)
    bench.run("down")
    (episode,) = bench.rows("select * from episodes")
    assert episode["task"] == solved["task"].id
    assert (episode["invalid"], episode["termination"]) == (None, "agent_exit")
    assert name.partition("-")[0] in episode["agent"]
    calls = bench.rows("select tool, arguments, outcome from calls order by id")
    assert [(call["tool"], json.loads(call["arguments"])) for call in calls] == [
        (call["name"], call["arguments"]) for call in solved["calls"][1:-1]
    ]
    (grade,) = bench.grades()
    assert grade["partial"] == 1.0
    (row,) = bench.report()
    assert (row["agent"], row["strict"]) == (episode["agent"], 1.0)
    stored = [path for path in bench.home.rglob("*") if path.is_file() and KEY.encode() in path.read_bytes()]
    assert stored == []
