"""Paths that a user names, and that cannot be looked at: too long here, in other cases forbidden."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import click
import pytest
from click.testing import Result

from mcp_bench.recorder.cli.export import export
from mcp_bench.recorder.cli.import_ import import_
from mcp_bench.recorder.cli.leakage import leakage
from mcp_bench.recorder.cli.merge import merge
from mcp_bench.servers.errors import WrongUseError
from tests.support.recorded import Episode, planned, record

pytestmark = pytest.mark.component
LONG = "x" * 300


@pytest.mark.parametrize(
    ("command", "options"),
    [
        (import_, [f"{LONG}.jsonl"]),
        (leakage, [f"{LONG}.jsonl", "--against", "test"]),
        (merge, ["--out", f"{LONG}.db"]),
        (export, ["--out", f"{LONG}.jsonl"]),
        (export, ["--out", f"{'x' * 245}.jsonl"]),  # its manifest has a longer name
        (export, ["--out", "x.jsonl", "--max-tokens", "9", "--tokenizer", LONG]),
    ],
)
def test_such_a_path_is_refused_with_the_reason(
    bench_home: Path,
    invoke: Callable[..., Result],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    command: click.Command,
    options: list[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    record([(planned(), Episode())])
    refused = invoke(command, *options).exception
    assert isinstance(refused, WrongUseError)
    assert str(refused).endswith("File name too long")
