"""`record --home native` with the real agents: they use the user's configuration and do not change it.

Each user has a memory, an MCP server and a variable; the scripted endpoint shows which of them reach the model.
"""

import json
import re
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mcp_bench.servers.saasworld import BENCHMARK
from tests.support import DESK_SERVER
from tests.support.agents.node_clis import node_environ
from tests.support.model_endpoint.endpoint import ModelEndpoint
from tests.support.model_endpoint.fault import Fault
from tests.support.model_endpoint.script import script_from_reference
from tests.support.sample import sampled

pytestmark = pytest.mark.system

KEY = "dummy-key-0123456789"
TASK = "simple-candidate-stage.1.train.0"
MEMORY = "The user keeps a teal otter."
OWN_SERVER = ["/usr/bin/env", "JOURNAL=/dev/null", sys.executable, str(DESK_SERVER)]
AGENTS = ("codex", "claude-code", "gemini", "qwen-code", "opencode")


def mcp_servers(**more: object) -> str:
    return json.dumps({"mcpServers": {"desk": {"command": OWN_SERVER[0], "args": OWN_SERVER[1:], **more}}})


OPENCODE = {
    "$schema": "https://opencode.ai/config.json",
    "mcp": {"desk": {"type": "local", "command": OWN_SERVER}},
    "permission": {"bash": "allow", "*": "ask"},
}
QWEN = json.dumps({**json.loads(mcp_servers()), "$version": 4}, indent=2)
"""Without a version, it would rewrite its settings."""
FILES: dict[str, dict[str, str]] = {
    "codex": {
        ".codex/AGENTS.md": MEMORY,
        ".codex/config.toml": f"# mine\n[mcp_servers.desk]\nrequired = true\ncommand = {json.dumps(OWN_SERVER[0])}\n"
        f"args = {json.dumps(OWN_SERVER[1:])}\n",
    },
    "claude-code": {
        ".claude/CLAUDE.md": MEMORY,
        ".claude/settings.json": '{"env": {"TEAL": "1"}}',
        ".claude.json": mcp_servers(type="stdio"),
    },
    "gemini": {".gemini/GEMINI.md": MEMORY, ".gemini/settings.json": mcp_servers(trust=True)},
    "qwen-code": {".qwen/QWEN.md": MEMORY, ".qwen/settings.json": QWEN},
    "opencode": {
        ".config/opencode/AGENTS.md": MEMORY,
        ".config/opencode/opencode.json": json.dumps(OPENCODE),
    },
}
WRITES_ITSELF = {".claude.json"}
"""Files in the user's home that a program writes at every start."""
PROGRAMS = {"claude-code": "claude", "qwen-code": "qwen"}

Record = Callable[..., None]


@pytest.fixture
def endpoint() -> Iterator[ModelEndpoint]:
    found = BENCHMARK.reference(TASK)
    assert found is not None
    with ModelEndpoint(
        [script_from_reference(BENCHMARK.task(TASK).prompt, found.model_dump())], api_key=KEY
    ) as running:
        yield running


@pytest.fixture
def user(tmp_path: Path) -> Path:
    home = tmp_path / "user"
    for files in FILES.values():
        for name, content in files.items():
            path = home / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)
    return home


@pytest.fixture
def record(bench, user: Path, tmp_path: Path, endpoint: ModelEndpoint) -> Record:
    """Record one task with an agent, and save its environment."""
    path = node_environ(user)["PATH"]
    folder = tmp_path / "bin"
    folder.mkdir()
    for agent in AGENTS:
        name = PROGRAMS.get(agent, agent)
        wrapper = folder / name
        wrapper.write_text(
            f'#!/bin/sh\nenv > {tmp_path}/environ\nexec {shutil.which(name, path=path)} "$@"\n'
        )
        wrapper.chmod(0o755)
    keys = dict.fromkeys(("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY"), KEY)
    offline = {"OPENCODE_DISABLE_MODELS_FETCH": "1", "OPENCODE_DISABLE_LSP_DOWNLOAD": "1"}
    bench.environ.update(HOME=str(user), PATH=f"{folder}:{path}", OWN_VARIABLE="teal", **keys, **offline)

    def run(agent: str, *more: str, code: int = 0) -> None:
        kind = {"claude-code": "anthropic_url", "gemini": "gemini_url"}.get(agent, "openai_url")
        bench.run(
            "record", "--agent", agent, "--task", TASK, "--model", "scripted-1",
            "--base-url", getattr(endpoint, kind), "--timeout", "120", *more, code=code,
        )  # fmt: skip

    return run


def asked(endpoint: ModelEndpoint) -> str:
    """Return all requests to the model during the task."""
    return json.dumps([request.body for request in endpoint.answered])


def offered(endpoint: ModelEndpoint) -> set[str]:
    return {tool for request in endpoint.answered for tool in request.tools}


def own_tools(endpoint: ModelEndpoint) -> set[str]:
    """Return the tools of the user's own server that the model could use."""
    return {tool for tool in offered(endpoint) if re.fullmatch(r"(.*desk_+)?note", tool)}


def contents(home: Path) -> dict[str, bytes]:
    return {name: (home / name).read_bytes() for files in FILES.values() for name in files}


@pytest.mark.parametrize("agent", sampled(AGENTS, ("codex", "claude-code")))
def test_the_users_own_home_is_used_and_unchanged(
    bench, record: Record, user: Path, tmp_path: Path, endpoint: ModelEndpoint, agent: str
) -> None:
    before = contents(user)
    record(agent, "--home", "native")
    (episode,) = bench.rows("select * from episodes")
    assert (episode["invalid"], bench.grades()[0]["partial"]) == (None, 1.0), episode
    assert MEMORY in asked(endpoint)
    assert own_tools(endpoint)
    assert not {"bash", "run_shell_command", "exec_command", "Bash", "shell"} & offered(endpoint)
    after = contents(user)
    assert {name for name in after if after[name] != before[name]} <= WRITES_ITSELF
    environ = (tmp_path / "environ").read_text().splitlines()
    assert "OWN_VARIABLE=teal" in environ and f"HOME={user}" in environ
    assert [line for line in environ if line.startswith("MCP_BENCH_") and "ENDPOINT_KEY" not in line] == []
    messages = bench.rows("select * from messages order by position")
    assert "think first" in messages[1]["reasoning"]
    usage = json.loads(episode["usage"])
    sent = [request.usage for request in endpoint.requests if request.usage]
    assert usage["output_tokens"] == sum(one.output for one in sent)
    (run,) = bench.rows("select home, tools from runs")
    assert run == {"home": "native", "tools": "mcp-only"}


@pytest.mark.parametrize("agent", sampled(AGENTS, ("codex", "claude-code")))
def test_a_sealed_home_has_none_of_it(
    bench, record: Record, user: Path, tmp_path: Path, endpoint: ModelEndpoint, agent: str
) -> None:
    before = sorted(path for path in user.rglob("*"))
    record(agent)
    assert bench.grades()[0]["partial"] == 1.0
    assert MEMORY not in asked(endpoint)
    assert not own_tools(endpoint)
    assert sorted(user.rglob("*")) == before
    environ = (tmp_path / "environ").read_text()
    assert "OWN_VARIABLE" not in environ and f"HOME={user}\n" not in environ
    assert bench.rows("select home from runs") == [{"home": "sealed"}]


def test_a_resumed_run_keeps_its_home(bench, record: Record, endpoint: ModelEndpoint) -> None:
    endpoint.fault = Fault(status=500)
    record("claude-code", "--home", "native", "--retries", "0", "--agent-option", "max_retries=0", code=1)
    endpoint.fault = None
    bench.run("record", "--resume", bench.run_folder.name)
    assert bench.grades()[0]["partial"] == 1.0
    assert MEMORY in asked(endpoint)
    (row,) = bench.report()
    assert row["home"] == "native"


@pytest.mark.full  # a home works the same over ACP
def test_an_unknown_acp_agent_works_in_the_users_home(
    bench, record: Record, user: Path, tmp_path: Path, endpoint: ModelEndpoint
) -> None:
    """It is opencode under an unknown name, with the model and endpoint of the user's own configuration."""
    loop = {
        "npm": "@ai-sdk/openai-compatible",
        "options": {"baseURL": endpoint.openai_url, "apiKey": KEY},
        "models": {"scripted-1": {"tool_call": True}},
    }
    config = {**OPENCODE, "model": "loop/scripted-1", "provider": {"loop": loop}}
    (user / ".config/opencode/opencode.json").write_text(json.dumps(config))
    program = tmp_path / "bin" / "own-agent"
    program.write_text('#!/bin/sh\ncase "$1" in *version*) echo 1.0;; *) exec opencode acp;; esac\n')
    program.chmod(0o755)
    command = ("--agent", "acp", "--agent-command", "own-agent")
    bench.run("record", *command, "--task", TASK, "--timeout", "120", "--home", "native")
    assert bench.grades()[0]["partial"] == 1.0
    assert MEMORY in asked(endpoint)
    assert bench.rows("select agent, home from runs") == [{"agent": "acp:own-agent", "home": "native"}]


@pytest.mark.parametrize("agent", ["oracle", "noop"])
def test_an_agent_without_a_native_home_is_refused(bench, agent: str) -> None:
    done = bench.run("record", "--agent", agent, "--home", "native", "--limit", "1", code=2)
    assert "Leave out --home native" in done.stderr
    assert not (bench.home / "runs").exists()
