"""`record --harness`: its texts reach the model, its skills are served, its version is stored and compared."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mcp_bench.servers.registry import load
from tests.support.agents.node_clis import node_environ
from tests.support.agents.real_agents import REAL_AGENTS, agents
from tests.support.bench_commands import Bench
from tests.support.harness_folder import INSTRUCTIONS, PRESSED, write_harness
from tests.support.model_endpoint.endpoint import ModelEndpoint
from tests.support.model_endpoint.fault import Fault
from tests.support.model_endpoint.script import ScriptedCall, Step, script_from_reference

pytestmark = pytest.mark.system

KEY = "dummy-key-0123456789"
KEYS = ("ANTHROPIC_API_KEY", "GEMINI_API_KEY", "OPENAI_API_KEY")
TASK = ("--benchmark", "counter", "--task", "unsolved")


def recorded(bench: Bench, endpoint: ModelEndpoint, *options: str | Path, code: int = 0) -> dict[str, Any]:
    bench.environ["OPENAI_API_KEY"] = KEY
    done = bench.run(
        "record",
        "--agent",
        "chat",
        *TASK,
        "--model",
        "m",
        "--base-url",
        endpoint.openai_url,
        "--json",
        *options,
        code=code,
    )
    totals: dict[str, Any] = json.loads(done.stdout)
    return totals


def strings(value: Any) -> list[str]:
    """Return all texts in a request's body."""
    if isinstance(value, dict):
        return [text for one in value.values() for text in strings(one)]
    if isinstance(value, list):
        return [text for one in value for text in strings(one)]
    return [value] if isinstance(value, str) else []


@agents("qwen-code", "opencode", "acp-codex", "acp-gemini", "acp-opencode")
def test_a_harness_reaches_a_real_agents_model(bench: Bench, tmp_path: Path, name: str) -> None:
    agent = REAL_AGENTS[name]
    bench.environ.update(PATH=node_environ(bench.home.parent)["PATH"], **dict.fromkeys(KEYS, KEY))
    with ModelEndpoint([PRESSED], api_key=KEY) as endpoint:
        bench.run(
            "record", *agent.command_line(), *TASK, "--model", "scripted-1", "--timeout", "120",
            "--base-url", agent.address(endpoint), "--harness", write_harness(tmp_path / "calm"),
        )  # fmt: skip
        bodies = [request.body for request in endpoint.answered if request.prompt]
    assert bodies
    for body in bodies:
        texts = "\n".join(strings(body))
        assert texts.count(INSTRUCTIONS) == 1
        assert "- press-well: How to press a button." in texts
        assert "Policy: press gently." in texts
    made = bench.rows("select tool from calls order by id")
    assert [row["tool"] for row in made] == ["read_skill", "press"]


def test_our_client_has_it_in_its_system_prompt(bench: Bench, tmp_path: Path) -> None:
    folder = write_harness(tmp_path / "calm")
    with ModelEndpoint([PRESSED], api_key=KEY) as endpoint:
        assert recorded(bench, endpoint, "--harness", folder)["strict"] == 1.0
        messages = endpoint.requests[0].body["messages"]
    assert [one["role"] for one in messages] == ["system", "user"]
    assert messages[0]["content"].startswith(INSTRUCTIONS)
    assert messages[0]["content"].endswith("Policy: press gently.")
    assert messages[1]["content"] == "Task unsolved: press the button."
    offered = {tool["function"]["name"]: tool["function"] for tool in endpoint.requests[0].body["tools"]}
    assert offered["press"]["description"] == "Press the button. It counts."
    assert offered["read_skill"]["parameters"]["properties"]["name"]["enum"] == ["press-well"]
    results = bench.rows("select content from messages where role = 'tool' order by position")
    assert results[0]["content"] == "Press once, softly.\n\nFiles of this skill:\n- references/force.md"
    (run,) = bench.rows("select settings from runs")
    settings = json.loads(run["settings"])
    assert (settings["harness"]["name"], settings["options"]) == ("calm", {"max_steps": "7"})
    (again,) = json.loads(bench.run("regrade", "--json").stdout)
    assert (again["status"], again["differences"]) == ("same", [])


def test_a_matrix_knows_a_harness_by_its_content(bench: Bench, tmp_path: Path) -> None:
    """A changed folder makes another cell; the same folder does not."""
    folder = write_harness(tmp_path / "calm")
    matrix = tmp_path / "cells.yaml"
    matrix.write_text(
        "name: cells\nrecord: {benchmark: counter, task: [unsolved], harness: calm}\n"
        "agents: [{name: idle, agent: noop}]\n"
    )
    runs = []
    for text in ("One rule.", "One rule.", "Another rule."):
        (folder / "INSTRUCTIONS.md").write_text(text)
        bench.run("record", "--config", matrix)
        runs.append(len(list((bench.home / "runs").iterdir())))
    assert runs == [1, 1, 2]


def test_versions_are_compared(bench: Bench, tmp_path: Path) -> None:
    first = write_harness(tmp_path / "calm")
    second = write_harness(tmp_path / "b" / "calm", memory__once=None)
    with ModelEndpoint([PRESSED], api_key=KEY) as endpoint:
        for folder in (first, second):
            recorded(bench, endpoint, "--harness", folder)
    rows = json.loads(bench.run("report", "--json").stdout)
    versions = {row["harness"].partition("harness ")[2].partition(",")[0] for row in rows}
    assert len(versions) == 2
    assert all(version.startswith("calm@") for version in versions)


def test_a_run_keeps_the_harness_it_started_with(bench: Bench, tmp_path: Path) -> None:
    folder = write_harness(tmp_path / "calm")
    with ModelEndpoint([PRESSED], fault=Fault(status=500), api_key=KEY) as endpoint:
        options = ("--harness", folder, "--agent-option", "max_retries=0")
        assert recorded(bench, endpoint, *options, code=1)["invalid"] == 1
        shutil.rmtree(folder)
        endpoint.fault = None
        bench.run("record", "--resume", bench.run_folder.name)
    assert bench.rows("select tool from calls order by id")[0] == {"tool": "read_skill"}


def test_a_harness_that_does_not_fit_is_refused(bench: Bench, tmp_path: Path) -> None:
    folder = write_harness(tmp_path / "calm", tools="pres: Press it.\n")
    refused = ("record", "--agent", "noop", "--harness", folder)
    done = bench.run(*refused, *TASK, code=2)
    assert "calm/tools.yaml: benchmark 'counter' has no tool 'pres' (did you mean press?)" in done.stderr
    done = bench.run(*refused, "--server", "true", "--prompt", "x", code=2)
    assert "use a harness of instructions and tips with --server" in done.stderr
    done = bench.run(*refused[:-1], tmp_path / "none", *TASK, code=2)
    assert "is no folder" in done.stderr


def test_steps_are_labelled_although_a_skill_was_read(bench: Bench, tmp_path: Path) -> None:
    """The world does not know the tool that read it."""
    saasworld = load("benchmark", "saasworld")
    task = next(iter(saasworld.tasks("train", 1)))
    reference = saasworld.reference(task.id)
    script = script_from_reference(task.prompt.splitlines()[0], reference.model_dump(), reasoning=False)
    skill = Step((ScriptedCall("read_skill", {"name": "press-well"}),))
    folder = write_harness(tmp_path / "calm", tools=None)
    bench.environ["OPENAI_API_KEY"] = KEY
    with ModelEndpoint([replace(script, steps=(skill, *script.steps))], api_key=KEY) as endpoint:
        bench.run(
            "record", "--agent", "chat", "--task", task.id, "--model", "m", "--base-url", endpoint.openai_url,
            "--harness", folder,
        )  # fmt: skip
    bench.run("export", "--steps", "--min-partial", "0", "--out", tmp_path / "rows.jsonl")
    rows = [json.loads(line) for line in (tmp_path / "rows.jsonl").read_text().splitlines()]
    assert len(rows) == len(script.steps)
