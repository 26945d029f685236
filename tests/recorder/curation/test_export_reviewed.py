"""`export --reviewed`: what a person marked good in `mcp-bench view`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from mcp_bench.recorder.cli.export import export
from mcp_bench.recorder.errors import StorageError
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


def test_a_killed_writer_leaves_no_reviews_and_no_error() -> None:
    """It made the file, and nothing in it."""
    reviews = Reviews()
    reviews.path.parent.mkdir(parents=True, exist_ok=True)
    reviews.path.touch()
    assert reviews.all() == {}
    kept = reviews.put("run_1", "ep_1", "good", "fine")
    assert kept is not None and reviews.all() == {"ep_1": kept}


def test_a_review_that_cannot_be_stored_says_so() -> None:
    reviews = Reviews()
    reviews.path.mkdir(parents=True)
    with pytest.raises(StorageError, match=f"cannot write {reviews.path}: "):
        reviews.put("run_1", "ep_1", "good", "fine")


def test_the_next_reader_undoes_what_a_killed_writer_began() -> None:
    reviews = Reviews()
    kept = reviews.put("run_1", "ep_1", "good", "fine")
    script = (
        "import os, sqlite3, sys; db = sqlite3.connect(sys.argv[1]); db.execute('PRAGMA cache_size = 1');"
        "db.executemany('INSERT INTO reviews VALUES (?, 0, NULL, ?, 0)', ((str(n), 'x' * 4000) for n in range(99)));"
        "os._exit(9)"
    )
    subprocess.run([sys.executable, "-c", script, reviews.path], check=False)
    assert reviews.path.with_name("notes.db-journal").exists()
    assert reviews.all() == {"ep_1": kept}
