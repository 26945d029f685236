"""The columns of `mcp-bench report`: those that say something; the rest is above the table or left out."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from click.testing import Result

from mcp_bench.recorder.cli.report import report
from mcp_bench.recorder.records import EpisodeEnd, now_us
from mcp_bench.recorder.runs.run_folder import RunFolder
from mcp_bench.recorder.trajectory import Usage
from mcp_bench.servers.contracts import Grade
from tests.support.recorded import Episode, begin, planned, record, run_info

pytestmark = pytest.mark.component

Invoke = Callable[..., Result]


def spent(cost: float | None, *, solved: bool, seconds: float = 2.0, **info: Any) -> None:
    """Record an episode that cost something and lasted some seconds."""
    with RunFolder.create(run_info(planned(f"t{seconds:g}"), **info)) as folder:
        episode = begin(folder, folder.info.plan[0])
        began = now_us()
        end = EpisodeEnd(
            termination="agent_exit", usage=Usage(input_tokens=2_345_678, output_tokens=99, cost_usd=cost),
            ended_us=began + int(seconds * 1e6),
        )  # fmt: skip
        folder.recording.end_episode(episode, end, [])
        grade = Grade(partial=1.0 if solved else 0.0, strict=solved, grader_version="g")
        folder.grades.put(episode, grade, None, began)


def cells(line: str) -> list[str]:
    return re.split(r"  +", line.strip())


def test_time_tokens_cost_and_cost_per_solved_task(invoke: Invoke) -> None:
    spent(0.5, solved=True, seconds=2)
    spent(0.25, solved=False, seconds=4)
    spent(0.004, solved=True, agent="cheap", seconds=250)
    _, header, *rows = invoke(report).output.splitlines()
    columns = cells(header)
    found = {row["agent"]: row for row in (dict(zip(columns, cells(line), strict=True)) for line in rows)}
    oracle, cheap = found["oracle"], found["cheap"]
    assert (oracle["time"], oracle["tokens in / out"]) == ("3.0 s", "4.7M / 198")
    assert (oracle["cost"], oracle["per solved"]) == ("$0.75", "$0.75")
    assert (cheap["time"], cheap["cost"], cheap["per solved"]) == ("250 s", "$0.0040", "$0.0040")
    (_, row) = sorted(json.loads(invoke(report, "--json").stdout), key=lambda row: str(row["agent"]))
    assert row["seconds"] == pytest.approx(6, abs=0.1)
    assert row["seconds_per_episode"] == pytest.approx(3, abs=0.1)
    assert (row["solved"], row["cost_per_solved_usd"], row["input_tokens"]) == (1, 0.75, 4_691_356)


@pytest.mark.parametrize(("other", "solved"), [(None, True), (0.5, False)])
def test_a_cost_per_solved_task_is_never_too_low(invoke: Invoke, other: float | None, solved: bool) -> None:
    """Without the cost of one episode, or without anything solved, there is none."""
    spent(0.5, solved=solved)
    spent(other, solved=False)
    (row,) = json.loads(invoke(report, "--json").stdout)
    assert row["cost_per_solved_usd"] is None
    assert "per solved" not in invoke(report).output


def test_what_all_rows_share_is_above_the_table(invoke: Invoke) -> None:
    for agent in ("one", "two"):
        record([(planned("a"), Episode())], agent=agent)
    above, header, *rows = invoke(report).output.splitlines()
    assert above == "benchmark agentdojo, split train, isolation none, verified none"
    assert cells(header) == ["agent", "episodes", "partial", "strict", "calls", "time", "tokens in / out"]
    assert [cells(row)[0] for row in rows] == ["one", "two"]


def test_what_differs_is_a_column(invoke: Invoke) -> None:
    record([(planned("a"), Episode()), (planned("b", split="test"), Episode(partial=0.5))], model="m")
    record([(planned("a"), Episode(partial=None, invalid="endpoint_error"))], isolation="landlock")
    _, header, *rows = invoke(report).stdout.splitlines()
    assert {"model", "split", "isolation", "invalid", "inv. as 0", "errors"} <= set(cells(header))
    assert "agent" not in cells(header) and len(rows) == 3


SETTINGS = {"timeout": 900.0, "retries": 2, "options": {"drop": "0.5", "effort": "high"}}


def test_conditions_are_only_the_parts_that_differ(invoke: Invoke) -> None:
    for settings in (SETTINGS, {**SETTINGS, "timeout": 60.0, "options": {"effort": "high"}}):
        record([(planned("a"), Episode())], settings=settings)
    _, header, *rows = invoke(report).output.splitlines()
    assert cells(header)[0] == "conditions"
    assert sorted(cells(row)[0] for row in rows) == ["timeout 60, no drop", "timeout 900, drop=0.5"]
