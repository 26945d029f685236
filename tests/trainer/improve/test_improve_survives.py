"""An improvement that is killed goes on; real agents propose changes."""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from mcp_bench.recorder.runs.annotations import read_annotations
from tests.support.agents.node_clis import node_environ
from tests.support.agents.real_agents import REAL_AGENTS
from tests.support.bench_commands import Bench
from tests.support.improvement.scripted import GOOD, dev_ids, lesson, obedient, proposing
from tests.support.model_endpoint.endpoint import ModelEndpoint
from tests.support.model_endpoint.script import Script, ScriptedCall, Step
from tests.support.processes.interrupted import interrupted

pytestmark = pytest.mark.system

KEY = "dummy-key-0123456789"
FEW = ("--train", "2", "--repeat", "1", "--test", "2", "--generations", "1")
PHASES = (
    "recording h0-w0 on train",
    "/h0-w0/train-0",
    "/feedback-1",
    "searching its texts",
    "/h0-w0/gate-0",
    "[3/10]",
    "/h1-w0/gate-0",
    "/h0-w0/confirm-0",
    "/h1-w0/confirm-0",
    "/h0-w0/test-0",
    "/h1-w0/test-0",
)
"""What is said where a phase begins or has got so far, in this order."""


@pytest.fixture
def bench(bench_home: Path) -> Bench:
    return Bench(bench_home)


def killed(command: list[str], at: str, env: dict[str, str]) -> None:
    """Kill the command when it says `at`, and wait until the commands that it started are gone."""
    with subprocess.Popen(
        command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as one:
        assert one.stderr is not None
        assert any(at in line for line in one.stderr), at
        one.kill()
        one.stderr.read()  # they have this pipe, too


def started(bench: Bench, folder: Path, *options: str) -> list[str]:
    agent = ("--benchmark", "doors", "--agent", "script", "--agent-option", f"file={obedient(folder)}")
    return bench.command("improve", folder / "out", *agent, "--dev", dev_ids(folder), *FEW, *options)


@pytest.mark.full  # eleven kills; a resume after a spent budget takes the same path
def test_a_kill_in_any_phase_loses_and_repeats_nothing(bench: Bench, tmp_path: Path) -> None:
    script = proposing(tmp_path, [lesson("good", GOOD)] * 9)
    command = started(bench, tmp_path, "--feedback-agent", "script", "--feedback-option", f"file={script}")
    env = bench.environment()
    for phase in PHASES:
        killed(command, phase, env)
        command = bench.command("improve", tmp_path / "out")
    done = subprocess.run([*command, "--json"], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    history: dict[str, Any] = json.loads(done.stdout)
    (one,) = history["generations"]
    assert (one["verdict"], history["best"]) == ("promoted", {"harness": 1, "weights": 0})
    needed = 2 + 1 + 2 * 10 + 2 * 10 + 2 * 2
    assert (
        needed <= history["spent"]["episodes"] <= needed + 2 * len(PHASES)
    )  # what was cut off was paid, too
    tags = Counter(
        tag.partition("/")[2] for run in (bench.home / "runs").iterdir() for tag in read_annotations(run).tags
    )
    assert tags.pop("feedback-1") <= 2  # a session that was cut off begins again
    assert tags == dict.fromkeys(
        ("h0-w0/train-0", *(f"h{n}-w0/{what}-0" for n in (0, 1) for what in ("gate", "confirm", "test"))), 1
    )


@pytest.mark.full  # the loop's test stops steps in the same way
def test_ctrl_c_stops_it_and_says_how_to_go_on(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "good").mkdir()
    (tmp_path / "good" / "INSTRUCTIONS.md").write_text(GOOD)
    command = started(bench, tmp_path, "--candidate", str(tmp_path / "good"))
    said = interrupted(command, "[2/10]", env=bench.environment())
    assert f"Go on with: mcp-bench improve {tmp_path / 'out'}" in said
    done = subprocess.run(
        bench.command("improve", tmp_path / "out", "--json"), env=bench.environment(), capture_output=True
    )
    assert json.loads(done.stdout)["generations"][0]["verdict"] == "promoted"


@pytest.mark.full  # the scripted feedback agent takes the same path
@pytest.mark.parametrize("name", ["codex", "claude-code"])
def test_a_real_agent_has_an_edit_promoted(bench: Bench, tmp_path: Path, name: str) -> None:
    agent = REAL_AGENTS[name]
    script = Script(
        "Another agent works on tasks of the benchmark doors",
        (
            Step((ScriptedCall("earlier_proposals"),)),
            Step((ScriptedCall("failures", {"by": "family"}),)),
            Step((ScriptedCall("write_file", {"path": "INSTRUCTIONS.md", "text": GOOD}),)),
            Step((ScriptedCall("propose_harness", {"reason": "nobody knocked"}),)),
            Step(text="I have proposed it."),
        ),
    )
    bench.environ |= {**node_environ(bench.home.parent), "OPENAI_API_KEY": KEY, "ANTHROPIC_API_KEY": KEY}
    with ModelEndpoint([script], api_key=KEY) as endpoint:
        options = [f"--feedback-option={key}={value}" for key, value in agent.options.items()]
        command = started(
            bench, tmp_path, "--feedback-agent", name, "--feedback-model", "scripted-1",
            "--feedback-base-url", agent.address(endpoint), *options, "--json",
        )  # fmt: skip
        done = subprocess.run(command, env=bench.environment(), capture_output=True, text=True)
        said = json.dumps([request.body for request in endpoint.answered if request.prompt][-1])
    assert done.returncode == 0, done.stderr
    (one,) = json.loads(done.stdout)["generations"]
    assert (one["reason"], one["verdict"]) == ("nobody knocked", "promoted")
    assert "1 of 1 episodes | doors oak" in said  # what it read in the recordings
    assert (tmp_path / "out/best/INSTRUCTIONS.md").read_text() == GOOD
    assert [path.name for path in (tmp_path / "out/best").iterdir()] == ["INSTRUCTIONS.md"]
