"""`mcp-bench record --config`: every cell is a run, and the same command goes on where it stopped."""

import json
import os
import re
import signal
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from mcp_bench.bridge.cli.record import record as record_command
from mcp_bench.bridge.engines.parallel import Parallel
from mcp_bench.bridge.matrix.file import read_matrix
from mcp_bench.bridge.matrix.plan import planned
from mcp_bench.bridge.run.choices import Choices
from mcp_bench.bridge.sandbox.engine import engines
from mcp_bench.servers.errors import BenchError
from tests.support import ROOT
from tests.support.bench_commands import RPC
from tests.support.model_endpoint.endpoint import ModelEndpoint
from tests.support.requirements import needs
from tests.support.task_folders import harbor_task

BWRAP = engines()["bwrap"]
pytestmark = pytest.mark.system

Write = Callable[[str], str]


@pytest.fixture
def endpoint() -> Iterator[ModelEndpoint]:
    with ModelEndpoint([]) as found:
        yield found


IDLE = "Server().connect()"
SOLVES_COLOURS = """
server = Server()
server.connect()
for key, value in (("sky", "cerulean-sentinel"), ("grass", "viridian-sentinel")):
    server.call("write", key=key, value=value)
"""


@pytest.fixture
def matrix(bench, tmp_path: Path) -> Callable[[str], Path]:
    """Write the file of a matrix on the notebook benchmark."""

    def write(text: str) -> Path:
        path = tmp_path / "matrix.yaml"
        path.write_text(f"name: notes\nrecord: {{benchmark: notebook, jobs: 2}}\n{text}")
        return path

    return write


def agents(script: Write, source: str, more: str = "") -> str:
    """Return the agents of a matrix: `mine`, a script with the source and more settings, and an idle one."""
    mine = Path(script(source).partition("=")[2])
    idle = mine.with_name("idle.py")
    idle.write_text(RPC + IDLE)
    return (
        f"agents:\n  - {{name: mine, agent: script, agent-option: {{file: {mine}}}{more}}}\n"
        f"  - {{name: idle, agent: priced, agent-option: {{file: {idle}}}}}\n"
    )


def stored(bench) -> list[dict[str, Any]]:
    """Return what each run stores about its cell, oldest run first."""
    found = []
    for folder in sorted((bench.home / "runs").iterdir()):
        with closing(sqlite3.connect(f"file:{folder / 'recordings.db'}?mode=ro", uri=True)) as db:
            (text,) = db.execute("select settings from runs").fetchone()
        found.append(json.loads(text)["matrix"])
    return found


def record(bench, path: Path, *args: str, code: int = 0) -> dict[str, Any]:
    done = bench.run("record", "--config", path, "--json", *args, code=code)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_a_matrix_is_recorded_extended_and_reported(bench, script: Write, matrix: Any) -> None:
    both = agents(script, SOLVES_COLOURS)
    path = matrix(f"{both}tasks: [{{limit: 1}}]")
    done = bench.run("record", "--config", path)
    assert "notes: 2 cells (2 new), 2 episodes to record" in done.stderr
    assert "Cell 1 of 2: mine" in done.stderr and "Cell 2 of 2: idle" in done.stderr
    assert "notes: 2 of 2 cells complete" in done.stderr
    table = [line.split()[0] for line in done.stdout.splitlines()]
    assert table[-2:] == ["priced", "script"]
    assert [(cell["name"], cell["cell"]) for cell in stored(bench)] == [("notes", "mine"), ("notes", "idle")]

    option = f"file={path.with_name('idle.py')}"  # a run of no matrix
    bench.run(
        "record", "--agent", "script", "--benchmark", "notebook", "--limit", "1", "--agent-option", option
    )
    again = record(bench, path)
    assert [cell["state"] for cell in again["cells"]] == ["complete", "complete"]
    assert again["complete"] and [row["episodes"] for row in again["report"]] == [1, 1]
    assert len(list((bench.home / "runs").iterdir())) == 3

    path = matrix(f"{both}tasks: [{{limit: 1}}, {{task: [numbers]}}]\nexclude: [{{cell: 'idle numbers'}}]")
    more = record(bench, path)
    assert [(cell["cell"], cell["state"]) for cell in more["cells"]] == [
        ("mine", "complete"), ("mine numbers", "new"), ("idle", "complete"),
    ]  # fmt: skip

    path = matrix(f"{both}tasks: [{{limit: 2}}]")
    plan = bench.run("record", "--config", path, "--dry-run").stdout
    assert plan.count("changed: limit 1 -> 2") == 2 and "Nothing was recorded" in plan
    changed = bench.run("record", "--config", path)
    assert "mine has changed (limit 1 -> 2): it gets a new run" in changed.stderr
    (idle, mine) = json.loads(bench.run("report", "--matrix", "notes", "--json", "--by", "agent").stdout)
    assert (mine["agent"], mine["episodes"]) == ("script", 3)  # the changed cell, and that of numbers
    assert (idle["agent"], idle["episodes"]) == ("priced", 2)
    assert "did you mean notes?" in bench.run("report", "--matrix", "note", code=2).stderr

    path = matrix(f"{both}tasks: [{{limit: 1}}]")  # back to what is recorded already
    assert "notes: 2 cells (2 complete)" in bench.run("record", "--config", path, "--dry-run").stdout


def example() -> tuple[str, list[list[str]]]:
    """Return the first example of the docs, and the words of the plan that they show."""
    page = (ROOT / "docs" / "recording" / "matrix.md").read_text()
    (text, *_) = re.findall(r"^```yaml\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    (shown, *_) = re.findall(r"^```text\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    return text, [line.split() for line in shown.splitlines()[1:-1]]


def test_the_docs_show_the_plan_of_their_example(bench, tmp_path: Path) -> None:
    text, shown = example()
    path = tmp_path / "drops.yaml"
    path.write_text(text)
    plan = bench.run("record", "--config", path, "--dry-run").stdout
    assert [line.split() for line in plan.splitlines()] == shown


@pytest.mark.full
def test_the_example_of_the_docs_is_recorded(bench, tmp_path: Path) -> None:
    path = tmp_path / "drops.yaml"
    path.write_text(example()[0])
    rows = record(bench, path)["report"]
    assert sorted(row["split"] for row in rows) == ["dev", "dev", "train", "train"]
    assert [row["episodes"] for row in rows] == [2, 2, 2, 2]
    assert [row["partial"] == 1 for row in rows if "drop" not in row["harness"]] == [True, True]


HANGS_UNTIL = """
server = Server()
server.connect()
if not os.path.exists({flag!r}):
    with open({ready!r}, "w") as ready:   # blocks until the test reads
        ready.write("x")
    import time; time.sleep(600)
"""


def test_a_stopped_matrix_goes_on(bench, script: Write, matrix: Any, tmp_path: Path) -> None:
    flag, ready = tmp_path / "flag", tmp_path / "ready"
    os.mkfifo(ready)
    both = agents(script, HANGS_UNTIL.format(flag=str(flag), ready=str(ready)), ", jobs: 1")
    path = matrix(f"{both}overrides: [{{where: {{cell: idle}}, record: {{limit: 1}}}}]")
    with bench.start("record", "--config", path) as referee:
        ready.read_text()
        referee.send_signal(signal.SIGINT)
        _, err = referee.communicate(timeout=60)
    assert referee.returncode == 1
    assert "notes: 0 of 2 cells complete" in err and "mine: 2 episodes left (stopped)" in err
    assert "idle: 1 episode left (not started)" in err
    assert f"Go on with: mcp-bench record --config {path}" in err
    flag.touch()
    again = record(bench, path)
    assert [(cell["state"], cell["left"]) for cell in again["cells"]] == [("incomplete", 0), ("new", 0)]
    assert len(list((bench.home / "runs").iterdir())) == 2


def test_a_cell_that_fails_leaves_the_others(bench, script: Write, matrix: Any) -> None:
    done = record(bench, matrix(agents(script, "pass  # never connects")), code=1)
    assert not done["complete"] and not done["stopped"]
    broken, fine = done["cells"]
    assert (broken["left"], broken["complete"], fine["left"]) == (2, False, 0)
    assert "invalid" in broken["why"]
    assert {row["agent"]: row["invalid"] for row in done["report"]} == {"priced": 0, "script": 2}


COSTS = """
server = Server(); server.connect()
open(os.path.join(os.environ["HOME"], "usage"), "w").write('{"cost_usd": 0.4}')
"""


def test_the_budget_counts_all_cells(bench, script: Write, matrix: Any) -> None:
    option = script(COSTS).partition("=")[2]
    cells = f"agents: [{{agent: priced, agent-option: {{file: {option}}}, jobs: 1, seed: [0, 1, 2]}}]"
    done = record(bench, matrix(f"max-cost: 1\n{cells}"), code=1)
    assert [(cell["left"], cell["cost_usd"]) for cell in done["cells"]] == [(0, 0.8), (1, 0.4), (2, None)]
    for cell in done["cells"][1:]:
        assert "the max-cost of the matrix is reached: $1.20 of $1.00" in cell["why"]
    raised = record(bench, matrix(f"max-cost: 10\n{cells}"))
    assert [cell["cost_usd"] for cell in raised["cells"]] == pytest.approx([0.8, 0.8, 0.8])
    assert len(list((bench.home / "runs").iterdir())) == 3


def test_every_fault_is_named_before_the_first_cell(bench, matrix: Any) -> None:
    path = matrix("""
agents:
  - {agent: noop}
  - {agent: nop}
  - {agent: codex, limit: 1, seed: [0, 1]}
  - {agent: oracle, agent-option: {drp: 0.5}}
  - {agent: oracle, agent-option: {drop: 7}}
  - {name: costly, agent: noop, max-cost: 3}
tasks: [{split: train}, {task: colour}]
""")
    done = bench.run("record", "--config", path, code=None)
    assert done.returncode in (1, 2) and done.stdout == ""
    assert not (bench.home / "runs").exists()
    for said in (
        "nothing was recorded",
        "unknown agent 'nop' (did you mean noop?) (cell nop train)",
        "codex",  # is not installed
        "(cells codex train seed=0, codex train seed=1",
        "has no option 'drp' (did you mean drop?)",
        "drop",
        "'noop' does not report its cost",
        "unknown task 'colour'",
    ):
        assert said in done.stderr, (said, done.stderr)


@pytest.mark.parametrize(
    "costly", ["{agent: claude-code, agent-option: {nothing: 1}}", "{agent: clode-code}"]
)
def test_a_budget_has_an_effect_on_cells_with_faults(bench, matrix: Any, costly: str) -> None:
    path = matrix(f"max-cost: 1\nagents: [{{agent: noop}}, {costly}]")
    said = bench.run("record", "--config", path, code=None).stderr
    assert "claude-code" in said and "max-cost" not in said


def test_a_matrix_is_the_same_from_anywhere(bench, endpoint: ModelEndpoint, tmp_path: Path) -> None:
    """Its files are beside it, and their content is what counts."""
    folder = tmp_path / "sub"
    (folder / "calm").mkdir(parents=True)
    (folder / "calm" / "INSTRUCTIONS.md").write_text("Be calm.")
    prices = folder / "prices.yaml"
    prices.write_text("m: {input: 1, output: 2}")
    (folder / "matrix.yaml").write_text(
        "name: haggling\nagents: [{agent: noop}]\n"
        "record: {benchmark: haggle, task: opponent, harness: calm, prices: prices.yaml, opponent-model: m,"
        f" opponent-base-url: {endpoint.openai_url}}}\n"
    )
    bench.environ["MCP_BENCH_OPPONENT_API_KEY"] = "k"
    assert record(bench, Path("sub/matrix.yaml"))["complete"]
    again = bench.run("record", "--config", folder / "matrix.yaml", "--dry-run").stdout
    assert "haggling: 1 cell (1 complete)" in again
    prices.write_text("m: {input: 1, output: 3}")
    assert "changed: prices " in bench.run("record", "--config", "sub/matrix.yaml", "--dry-run").stdout
    prices.write_text("m: 3")
    refused = bench.run("record", "--config", "sub/matrix.yaml", "--dry-run", code=2).stderr
    assert (
        "nothing was recorded" in refused and "sub/prices.yaml:1: m" in refused and "(cell noop)" in refused
    )


def test_each_cell_is_resumed_with_its_own_logins(bench, script: Write, matrix: Any) -> None:
    """They stand in the file alone: a run stores the address of an endpoint."""
    file = script("raise SystemExit").partition("=")[2]
    with ModelEndpoint([]) as first, ModelEndpoint([]) as second:
        cells = "".join(
            f"  - {{name: {name}, agent: script, agent-option: {{file: {file}}}, opponent-model: m,"
            f" opponent-base-url: '{endpoint.openai_url.replace('//', f'//{name}:word@')}'}}\n"
            for name, endpoint in (("first", first), ("second", second))
        )
        path = matrix(f"agents:\n{cells}tasks: [{{benchmark: haggle, task: opponent}}]")
        for _ in range(2):
            found = record(bench, path, code=1)
            assert [(cell["left"], cell["why"]) for cell in found["cells"]] == [(1, "1 invalid")] * 2
    assert len(list((bench.home / "runs").iterdir())) == 2


@needs("bwrap", BWRAP.support().works, BWRAP.support().detail)
def test_tasks_are_looked_up_beside_the_matrix(bench, tmp_path: Path) -> None:
    folder = tmp_path / "sub"
    for name in ("one", "two"):
        harbor_task(folder / "tasks" / name)
    (folder / "ids.txt").write_text("two")
    (folder / "matrix.yaml").write_text(
        "name: work\nrecord: {benchmark: harbor, path: tasks, task: '@ids.txt'}\nagents: [{agent: noop}]"
    )
    (cell,) = json.loads(bench.run("record", "--config", "sub/matrix.yaml", "--dry-run", "--json").stdout)[
        "cells"
    ]
    assert cell["episodes"] == 1
    assert cell["values"]["tasks"] == ["two"] and cell["values"]["benchmark"] == "harbor:tasks"


def test_a_file_cannot_read_standard_input(bench, matrix: Any) -> None:
    path = matrix("agents: [{agent: noop, server: 'true', prompt-file: '-'}]")
    assert "standard input can be read only once" in bench.run("record", "--config", path, code=2).stderr


def test_a_matrix_says_what_a_projects_file_set(bench, matrix: Any) -> None:
    (bench.home.parent / "mcp-bench.toml").write_text("[record]\nlimit = 1\n")
    path = matrix("agents: [{agent: noop}]")
    done = bench.run("record", "--config", path, "--dry-run")
    assert "limit" in done.stderr and "mcp-bench.toml" in done.stderr


def test_a_cell_unsets_what_a_settings_file_sets(bench, matrix: Any, script: Write) -> None:
    idle = Path(script(IDLE).partition("=")[2])
    own = idle.with_name("own.toml")
    own.write_text(
        "[record]\nlimit = 1\ncapture-llm = true\ntask = ['colours']\nagent = 'script'\n"
        f"agent-option = ['file={idle}']\n"
    )
    bench.environ["MCP_BENCH_CONFIG"] = str(own)

    def plan(text: str) -> list[list[str]]:
        lines = bench.run("record", "--config", matrix(text), "--dry-run").stdout.splitlines()
        return [line.split() for line in lines[2:-1]]

    off = "limit: null, task: null, capture-llm: false"
    assert plan(f"agents: [{{agent: oracle, {off}}}]") == [["oracle", "2", "2", "new"]]
    listed = "agents: [{agent: script, capture-llm: false, task: [], limit: [1, null]}]"
    assert [row[-3] for row in plan(listed)] == ["1", "2"]
    changed = f"agents: [{{agent: oracle}}]\noverrides: [{{where: {{agent: oracle}}, record: {{{off}}}}}]"
    assert plan(changed) == [["oracle", "2", "2", "new"]]


def test_what_does_not_go_with_a_file_is_refused(bench, matrix: Any) -> None:
    path = matrix("agents: [{agent: noop}]")
    done = bench.run("record", "--config", path, "--limit", "1", code=2)
    assert "--config takes all settings from its file: leave out --limit" in done.stderr
    assert "leave out --dry-run" in bench.run("record", "--resume", "run_x", "--dry-run", code=2).stderr


def test_a_dry_run_checks_and_records_nothing(bench, matrix: Any) -> None:
    path = matrix("agents: [{agent: noop, seed: [0, 1]}]")
    shown = bench.run("record", "--config", path, "--dry-run").stdout
    assert "notes: 2 cells (2 new), 4 episodes to record" in shown
    assert [line.split() for line in shown.splitlines()[2:4]] == [
        ["noop", "seed=0", "2", "2", "new"], ["noop", "seed=1", "2", "2", "new"],
    ]  # fmt: skip
    one = bench.run("record", "--agent", "noop", "--benchmark", "notebook", "--dry-run").stdout
    assert "on notebook, 2 episodes, isolation none. Nothing was recorded." in one
    assert not (bench.home / "runs").exists()


class DownError(BenchError):
    """The endpoint of a cell does not answer."""

    may_pass = True


def test_an_endpoint_that_is_down_is_no_fault(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "matrix.yaml"
    path.write_text("name: m\nrecord: {limit: 1}\nagents: [{agent: noop}, {agent: oracle}]")

    def checked_run(choices: Choices, *, elsewhere: bool) -> None:
        assert not elsewhere
        if choices.agent == "noop":
            raise DownError("the endpoint is down")

    monkeypatch.setattr("mcp_bench.bridge.matrix.plan.checked_run", checked_run)
    found = planned(
        read_matrix(path, record_command),
        lambda cell: (Choices(agent=cell.values["agent"], benchmark="saasworld", limit=1), Parallel()),
    )
    assert [(one.cell.name, one.episodes) for one in found.cells] == [("noop", 1), ("oracle", 1)]
    assert found.warnings == ("the endpoint is down (cell noop)",)


def test_the_tasks_of_each_cell_are_checked(bench, matrix: Any) -> None:
    path = matrix("""
agents: [{agent: noop}]
tasks: [{task: colours}, {benchmark: haggle, task: user}]
""")
    done = bench.run("record", "--config", path, "--dry-run", code=2)
    assert "1 of the 1 tasks need a model that plays the user (user)" in done.stderr
