"""The real Codex and Claude Code with their shells: reading a canary taints an episode, working does not.

Only the model is a stand-in: a scripted endpoint on 127.0.0.1.
"""

from __future__ import annotations

import json
from collections import Counter

import pytest

from mcp_bench.bridge.isolation.levels import BY_NAME
from mcp_bench.recorder.isolation_levels import SEALING
from mcp_bench.servers.saasworld import BENCHMARK
from tests.support.agents.node_clis import node_environ
from tests.support.agents.real_agents import REAL_AGENTS
from tests.support.model_endpoint.endpoint import ModelEndpoint
from tests.support.model_endpoint.script import Script, ScriptedCall, Step, script_from_reference
from tests.support.requirements import needs

pytestmark = pytest.mark.system

KEY = "dummy-key-0123456789"
THIEF, WORKER = "simple-candidate-stage.1.train.0", "simple-candidate-stage.1.train.1"
HONEST = "ls -la; python3 -c 'print(6 * 7)'; env; ps aux || true; cat /proc/self/status; pip list || true"
SHELL = {"codex": ("exec_command", "cmd"), "claude-code": ("Bash", "command")}
QUICK = {("codex", "none"), ("claude-code", "landlock")}
"""The other levels are tested in the full sweep."""


def each() -> list[object]:
    works = {level: BY_NAME[level].support().works for level in SEALING}
    return [
        pytest.param(
            agent,
            level,
            marks=[
                needs(level, works.get(level, True), "it does not work here"),
                *([pytest.mark.full] if (agent, level) not in QUICK else []),
            ],
        )
        for agent in SHELL
        for level in ("none", *SEALING)
    ]


def script(agent: str, task: str, command: str) -> Script:
    """The reference solution, behind one command in the agent's shell."""
    tool, argument = SHELL[agent]
    known = BENCHMARK.reference(task)
    assert known is not None
    solution = script_from_reference(BENCHMARK.task(task).prompt, known.model_dump())
    call = ScriptedCall(tool, {argument: command, **({"description": "look"} if agent != "codex" else {})})
    return Script(solution.prompt, (Step((call,)), *solution.steps))


@pytest.mark.parametrize(("agent", "level"), each())
def test_reading_a_canary_taints_and_working_does_not(bench, agent: str, level: str) -> None:
    steal = f"cat {bench.home}/runs/*/answers.json | base64 -w 40"
    scripts = [script(agent, THIEF, steal), script(agent, WORKER, HONEST)]
    environ = node_environ(bench.home.parent)
    bench.environ |= {"PATH": environ["PATH"], "OPENAI_API_KEY": KEY, "ANTHROPIC_API_KEY": KEY}
    with ModelEndpoint(scripts, api_key=KEY) as endpoint:
        bench.run(
            "record", *REAL_AGENTS[agent].command_line(), "--task", THIEF, "--task", WORKER,
            "--model", "scripted-1", "--base-url", REAL_AGENTS[agent].address(endpoint), "--jobs", "2",
            "--timeout", "200", "--isolation", level, "--tools", "all",
        )  # fmt: skip
    episodes = {row["task"]: row["id"] for row in bench.rows("select task, id from episodes")}
    scans = {row["episode"]: row for row in bench.rows("select * from scans", database="grades.db")}
    honest, guilty = scans[episodes[WORKER]], scans[episodes[THIEF]]
    assert (honest["verdict"], json.loads(honest["evidence"])) == ("clean", [])
    evidence = json.loads(guilty["evidence"])
    kinds = Counter(one["kind"] for one in evidence)
    assert guilty["verdict"] == "tainted"
    assert kinds["path"] >= 1 and str(bench.home) in evidence[0]["excerpt"]
    assert kinds["canary"] == (1 if level == "none" else 0), "kept apart, it got no further than the attempt"
    if level == "none":
        (seen,) = (one for one in evidence if one["kind"] == "canary")
        assert seen["what"] == "the canary in answers.json, base64"
        assert seen["where"].endswith(f"result of {SHELL[agent][0]}")
    (row,) = bench.report()
    assert (row["verified"], row["clean"], row["tainted"]) == (int(level != "none"), 1, 1)
    assert row["strict"] == 1.0
    shown = bench.run("show", episodes[THIEF]).stdout
    assert "tainted, not verified" in shown
    assert f"{bench.home}/runs" in shown.split("evidence", 1)[1].splitlines()[0]
    out = bench.home.parent / "rows.jsonl"
    done = bench.run("export", "--out", out)
    assert "1 tainted" in done.stderr.replace("-1", "1")
    (exported,) = map(json.loads, out.read_text().splitlines())
    assert (exported["task"], exported["taint"]) == (WORKER, "clean")
    assert exported["verified"] is (level != "none")
    assert not [*bench.home.rglob("answers.json"), *bench.home.rglob("grades-backup.db")]
