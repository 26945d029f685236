"""`export --reviewed`: what a person marked good in `mcp-bench view`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from mcp_bench.recorder.cli.export import export
from mcp_bench.recorder.store.reviews import Reviews
from tests.support.recorded import Episode, planned, record

pytestmark = pytest.mark.component


def test_only_episodes_marked_good_are_exported(tmp_path: Path) -> None:
    folder, episodes = record([(planned(name), Episode()) for name in ("one", "two", "three")])
    reviews = Reviews()
    reviews.put(folder.path.name, episodes[0], "good", "clear")
    reviews.put(folder.path.name, episodes[1], "bad", "guessed")
    out = tmp_path / "rows.jsonl"
    found = CliRunner().invoke(export, ["--reviewed", "--out", str(out)])
    assert found.exit_code == 0, found.output
    assert [json.loads(line)["id"] for line in out.read_text().splitlines()] == [episodes[0]]
    assert "2 not marked good by a person" in found.output.replace("-2", "2")
