"""An agent in the sandbox of its task: it solves it with its own shell, and its model is asked through a relay."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import anyio
import pytest

from mcp_bench.bridge.episode.in_sandbox import Door
from mcp_bench.bridge.sandbox.bwrap import BwrapSandbox
from mcp_bench.bridge.sandbox.engine import engines
from mcp_bench.bridge.sandbox.enter import first_process
from mcp_bench.servers.codeworld import BENCHMARK as CODEWORLD
from mcp_bench.servers.contracts import Benchmark
from mcp_bench.servers.harbor import BENCHMARK as HARBOR
from mcp_bench.servers.sandbox import SandboxLimits, SandboxSpec
from tests.support.agents.node_clis import node_environ
from tests.support.bench_commands import RPC, Bench
from tests.support.model_endpoint.endpoint import ModelEndpoint
from tests.support.model_endpoint.script import Script, ScriptedCall, Step
from tests.support.requirements import needs
from tests.support.task_folders import SOLUTION, harbor_task

BWRAP = engines()["bwrap"]
pytestmark = [pytest.mark.system, needs("bwrap", BWRAP.support().works, BWRAP.support().detail)]
KEY = "dummy-key-0123456789"
TASK = "failing-function.1.dev.0"


def codeworld(folder: Path) -> tuple[Benchmark, str, str]:
    """Return a benchmark, a task and the commands that solve it."""
    reference = CODEWORLD.reference(TASK)
    return CODEWORLD, TASK, str(reference.calls[0].arguments["command"])


def harbor(folder: Path) -> tuple[Benchmark, str, str]:
    harbor_task(folder)
    found = HARBOR.at(str(folder))
    return found, next(found.tasks("all")).id, SOLUTION


def own_call(agent: str, command: str) -> ScriptedCall:
    """Return the call of an agent's shell; `chat` has none, and calls the world's."""
    match agent:
        case "claude-code":
            return ScriptedCall("Bash", {"command": command, "description": "do the work"})
        case "codex":
            return ScriptedCall("exec_command", {"cmd": command})
        case _:
            return ScriptedCall("bash", {"command": command})


@pytest.mark.parametrize(
    ("agent", "model", "work", "made"),
    [
        ("chat", "scripted-1", codeworld, ["bash"]),
        ("claude-code", "claude-sonnet-4-5", harbor, []),
        # the same path with another agent, and with the other benchmark
        pytest.param("codex", "gpt-5.5", codeworld, [], marks=pytest.mark.full),
        pytest.param("codex", "gpt-5.5", harbor, [], marks=pytest.mark.full),
        pytest.param("claude-code", "claude-sonnet-4-5", codeworld, [], marks=pytest.mark.full),
    ],
)
def test_it_solves_the_task_there(bench: Bench, tmp_path: Path, agent, model, work, made) -> None:
    folder = tmp_path / "tasks"
    folder.mkdir()
    benchmark, task, commands = work(folder)
    solve = own_call(agent, commands)
    look = own_call(agent, "pwd; hostname; cat /proc/1/cmdline | tr '\\0' ' '")
    script = Script(
        benchmark.task(task).prompt.splitlines()[0], (Step((look,)), Step((solve,)), Step(text="Done."))
    )
    bench.environ.update(
        PATH=node_environ(bench.home.parent)["PATH"], OPENAI_API_KEY=KEY, ANTHROPIC_API_KEY=KEY
    )
    bench.environ["MCP_BENCH_ISOLATION"] = "auto"
    with ModelEndpoint([script], api_key=KEY) as endpoint:
        url = endpoint.anthropic_url if agent == "claude-code" else endpoint.openai_url
        done = bench.run(
            "record", "--agent", agent, "--benchmark", benchmark.name, "--task", task, "--model", model,
            "--base-url", url, "--timeout", "120", "--tools", "all", "--json",
        )  # fmt: skip
    assert json.loads(done.stdout)["strict"] == 1.0
    assert [row["tool"] for row in bench.rows("select * from calls order by id")] == made * 2
    [episode] = bench.rows("select * from episodes")
    assert episode["isolation"] == "bwrap"
    assert json.loads(episode["probes"])["sandbox-1"]["network"] == "none"
    assert len(bench.rows("select * from model_calls")) >= 3
    said = json.dumps(
        [row["content"] for row in bench.rows("select content from messages where role = 'tool'")]
    )
    assert "sandbox" in said
    assert ("/work" if benchmark is CODEWORLD else "/app") in said


@pytest.mark.parametrize("connects", [True, False], ids=["after it connected", "before"])
def test_an_agent_that_kills_everything_is_graded(bench: Bench, connects: bool) -> None:
    program = bench.home.parent / "agent.py"
    connect = "server = Server()\nserver.connect()\n" if connects else ""
    program.write_text(RPC + f"import os\n{connect}os.kill(-1, 9)\n")
    bench.environ["MCP_BENCH_ISOLATION"] = "auto"
    with ModelEndpoint([]) as endpoint:
        done = bench.run(
            "record", "--agent", "script", "--agent-option", f"file={program}", "--benchmark", "codeworld",
            "--task", TASK, "--tools", "all", "--base-url", endpoint.openai_url, "--json",
        )  # fmt: skip
    assert json.loads(done.stdout)["strict"] == 0
    [episode] = bench.rows("select * from episodes")  # it is not retried
    assert episode["invalid"] is None, episode


@pytest.mark.anyio
async def test_what_kills_everything_right_before_a_sandbox_is_ended_is_counted() -> None:
    for _ in range(3):
        with anyio.fail_after(60):
            async with BWRAP.sandbox(SandboxSpec(limits=SandboxLimits())) as sandbox:
                assert isinstance(sandbox, BwrapSandbox)
                door = Door(sandbox, sandbox.door)
                first = first_process(door.described["supervisor"])
                [program] = Path(f"/proc/{first}/task/{first}/children").read_text().split()
                os.kill(int(program), signal.SIGKILL)
                await sandbox.halt()
                assert door.killed_all()


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--agent", "noop"], "'noop' cannot be started there. Leave out --tools all"),
        (
            ["--agent", "search", "--model", "m", "--base-url", "http://127.0.0.1:9/v1"],
            "'search' cannot be started there. Leave out --tools all",
        ),
        (
            ["--agent", "script", "--agent-option", "file=x", "--isolation", "landlock"],
            "Leave out --isolation landlock",
        ),
        (["--agent", "codex", "--home", "native"], "Leave out --home native or --tools all"),
    ],
)
def test_what_cannot_be_there_is_refused_before_the_run(bench: Bench, options: list[str], says: str) -> None:
    if "codex" in options:
        bench.environ["PATH"] = node_environ(bench.home.parent)["PATH"]
    bench.environ["MCP_BENCH_ISOLATION"] = "auto"
    done = bench.run(
        "record", "--benchmark", "codeworld", "--task", TASK, "--tools", "all", *options, code=None
    )
    assert done.returncode != 0
    assert says in " ".join(done.stderr.split())
    assert not list((bench.home / "runs").glob("run_*"))


def test_a_login_file_is_not_lent_there(bench: Bench) -> None:
    folder = bench.home.parent / ".claude"
    folder.mkdir()
    (folder / ".credentials.json").write_text("{}")
    bench.environ |= {"PATH": node_environ(bench.home.parent)["PATH"], "MCP_BENCH_ISOLATION": "auto"}
    done = bench.run(
        "record",
        "--benchmark",
        "codeworld",
        "--task",
        TASK,
        "--tools",
        "all",
        "--agent",
        "claude-code",
        code=None,
    )
    assert done.returncode != 0
    assert "--tools all needs an API key" in done.stderr and "ANTHROPIC_API_KEY" in done.stderr
