"""Every command that reads runs chooses them in the same way: `--run`, `--run-tag`, unique prefixes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import click
import pytest
from click.testing import Result

from mcp_bench.bridge.cli.regrade import regrade
from mcp_bench.recorder.cli.annotate import annotate
from mcp_bench.recorder.cli.delete import delete
from mcp_bench.recorder.cli.export import export
from mcp_bench.recorder.cli.merge import merge
from mcp_bench.recorder.cli.report import report
from mcp_bench.recorder.cli.scan import scan
from mcp_bench.recorder.cli.show import show
from mcp_bench.recorder.cli.verify import verify
from mcp_bench.recorder.runs.annotations import annotate as tag
from mcp_bench.servers.errors import UnknownNameError, WrongUseError
from tests.support.recorded import Episode, planned, record

pytestmark = pytest.mark.component

Invoke = Callable[..., Result]
BY_OPTION = (export, merge, regrade, report, scan, show, verify)
BY_ARGUMENT = (annotate, delete, merge, regrade, report, scan, show, verify)


def runs() -> list[str]:
    """Record two ungraded runs, whose ids have a long common prefix; the first one is tagged `first`."""
    found = [
        record([(planned(), Episode(partial=None))], agent=agent, graded=False, id=f"run_0abc{number}")[0]
        for number, agent in enumerate(("one", "two"))
    ]
    tag(found[0].path, add=["first"])
    return [folder.id for folder in found]


def arguments(command: click.Command, tmp_path: Path) -> list[str]:
    out = ["--out", str(tmp_path / "out.db")] if command in (export, merge) else []
    return [*out, "--yes"] if command is delete else out


@pytest.mark.parametrize("command", BY_OPTION, ids=lambda command: command.name)
def test_the_same_options_and_errors(invoke: Invoke, tmp_path: Path, command: click.Command) -> None:
    first, second = runs()
    rest = arguments(command, tmp_path)
    for name, kind, text in (
        ("run_0abd1", UnknownNameError, first),  # near matches are named
        ("", UnknownNameError, "unknown run ''"),
        ("run_0", WrongUseError, f"'run_0' matches 2 runs ({first}, {second}): give a longer prefix"),
    ):
        error = invoke(command, "--run", name, *rest).exception
        assert isinstance(error, kind) and text in str(error), (command.name, error)
    error = invoke(command, "--run-tag", "frist", *rest).exception
    assert isinstance(error, UnknownNameError) and "did you mean first?" in str(error)
    error = invoke(command, "--run", second, "--run-tag", "first", *rest).exception
    assert isinstance(error, UnknownNameError | WrongUseError)


@pytest.mark.parametrize("command", BY_ARGUMENT, ids=lambda command: command.name)
def test_arguments_are_resolved_alike(invoke: Invoke, tmp_path: Path, command: click.Command) -> None:
    first, second = runs()
    error = invoke(command, "run_0", *arguments(command, tmp_path)).exception
    assert isinstance(error, WrongUseError) and f"matches 2 runs ({first}, {second})" in str(error)


def test_what_is_chosen(invoke: Invoke, tmp_path: Path) -> None:
    first, second = runs()

    def agents(*options: str) -> list[str]:
        return [row["agent"] for row in json.loads(invoke(report, *options, "--json").stdout)]

    assert agents() == agents("--run", first, "--run", second) == ["one", "two"]
    assert agents("run_0abc1") == agents("--run", "run_0abc1") == ["two"]
    assert agents("--run-tag", "first") == agents("--run-tag", "first", "--run", first) == ["one"]
    for options in (("run_0abc0",), ("--run", "run_0abc0"), ("--run-tag", "first")):
        (verdict,) = json.loads(invoke(verify, *options, "--json").stdout)
        assert verdict["run"] == first
        (scanned,) = json.loads(invoke(scan, *options, "--json").stdout)
        assert scanned["run"] == first
    listed = json.loads(invoke(show, "--run-tag", "first", "--json").stdout)
    assert [(row["id"], row["tags"]) for row in listed] == [(first, ["first"])]
    for options in (("run_0abc1",), ("--run", "run_0abc1")):
        (episode,) = json.loads(invoke(show, *options, "--json").stdout)
        assert episode["run"] == second
    outside = invoke(show, episode["id"], "--run-tag", "first").exception
    assert isinstance(outside, UnknownNameError)
    assert invoke(merge, "--run-tag", "first", "--out", tmp_path / "a.db").exit_code == 0
