"""The plugin for Claude Code and the extension for Gemini CLI, installed with the real command lines.

A scripted model then uses their MCP server and their command.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from mcp_bench.servers.saasworld import API_BENCHMARK
from tests.support import ROOT
from tests.support.agents.node_clis import node_environ
from tests.support.model_endpoint.endpoint import ModelEndpoint
from tests.support.model_endpoint.script import script_from_reference

pytestmark = pytest.mark.system

KEY = "dummy-key-0123456789"
SAID = "Solve tasks that the MCP server `bench` hands out: 1 of them"
"""Part of the command's text that the user does not type."""

Run = Callable[..., str]


def claude_code(run: Run, home: Path) -> None:
    run("claude", "plugin", "marketplace", "add", str(ROOT))
    run("claude", "plugin", "install", "bench@mcp-bench")
    assert "plugin:bench:bench: mcp-bench connect - ✔ Connected" in run("claude", "mcp", "list")
    run("claude", "--print", "--model=scripted-1", "/bench:bench 1")


def gemini(run: Run, home: Path) -> None:
    settings = home / ".gemini" / "settings.json"
    settings.parent.mkdir()
    settings.write_text('{"security": {"auth": {"selectedType": "gemini-api-key"}}}')
    run("gemini", "extensions", "install", str(ROOT / "plugins/manifests/gemini"), "--consent")
    assert "✓ bench (from bench): mcp-bench connect (stdio) - Connected" in run("gemini", "mcp", "list")
    run("gemini", "--model=gemini-2.5-pro", "--approval-mode=yolo", "--prompt=/bench 1")


@pytest.mark.parametrize("install_and_play", [claude_code, pytest.param(gemini, marks=pytest.mark.full)])
def test_plugin_provides_server_and_command(bench, install_and_play) -> None:
    home = bench.home.parent
    task = next(iter(API_BENCHMARK.tasks()))
    reference = API_BENCHMARK.reference(task.id)
    calls = [{"name": call.name, "arguments": call.arguments} for call in reference.calls]
    wanted = [*calls, *([answer(reference.answer)] if reference.answer else [])]
    played = {"calls": [{"name": "next_task"}, *wanted, {"name": "finish_task"}]}
    with ModelEndpoint([script_from_reference(SAID, played)], api_key=KEY) as endpoint:
        environ = node_environ(home) | {
            "ANTHROPIC_API_KEY": KEY,
            "ANTHROPIC_BASE_URL": endpoint.anthropic_url,
            "ANTHROPIC_DEFAULT_HAIKU_MODEL": "scripted-1",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
            "ENABLE_TOOL_SEARCH": "false",
            "GEMINI_API_KEY": KEY,
            "GEMINI_CLI_TRUST_WORKSPACE": "true",
            "GOOGLE_GEMINI_BASE_URL": endpoint.gemini_url,
            "MCP_BENCH_HOME": str(bench.home),
            "MCP_CONNECTION_NONBLOCKING": "0",
            "MCP_TIMEOUT": "60000",
        }
        environ["PATH"] = f"{Path(sys.executable).parent}:{environ['PATH']}"
        with tempfile.TemporaryDirectory() as workdir:

            def run(*command: str) -> str:
                done = subprocess.run(
                    command, env=environ, cwd=workdir, stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=240,
                )  # fmt: skip
                assert done.returncode == 0, (command, done.stdout)
                return done.stdout

            bench.run("up")
            warm_up(bench)
            install_and_play(run, home)
    bench.run("down")
    (episode,) = bench.rows("select * from episodes")
    assert (episode["task"], episode["invalid"]) == (task.id, None)
    rows = bench.rows("select tool, arguments from calls order by id")
    assert [{"name": row["tool"], "arguments": json.loads(row["arguments"])} for row in rows] == wanted
    (grade,) = bench.grades()
    assert grade["partial"] == 1.0


def warm_up(bench) -> None:
    """Make the referee load the benchmark: `gemini mcp list` waits only five seconds for a server."""
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    line = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello})
    with subprocess.Popen(
        bench.command("connect"),
        env=bench.environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as client:
        assert client.stdin is not None and client.stdout is not None
        client.stdin.write(f"{line}\n")
        client.stdin.flush()
        assert "result" in json.loads(client.stdout.readline())
        client.stdin.close()


def answer(text: str) -> dict:
    return {"name": "submit_answer", "arguments": {"answer": text}}
