"""Tags and notes: the operator's words about runs, beside what is sealed and signed."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from mcp_bench.recorder.cli.annotate import annotate
from mcp_bench.recorder.cli.export import export
from mcp_bench.recorder.cli.merge import merge
from mcp_bench.recorder.cli.report import report
from mcp_bench.recorder.cli.show import show
from mcp_bench.recorder.cli.verify import verify
from mcp_bench.recorder.errors import StorageError
from mcp_bench.recorder.runs import annotations
from mcp_bench.recorder.runs.run_folder import RunFolder
from mcp_bench.servers.errors import UnknownNameError, WrongUseError
from tests.support.recorded import Episode, planned, record, run_info

pytestmark = pytest.mark.component

Invoke = Callable[..., Result]


def document(result: Result) -> Any:
    assert result.exit_code == 0, result.exception
    return json.loads(result.stdout)


def test_tags_and_a_note_are_shown_everywhere(invoke: Invoke, tmp_path: Path) -> None:
    folder, (episode,) = record([(planned(), Episode())], benchmark="b")
    record([(planned(), Episode())], benchmark="b", agent="other")
    note = "before the new prompt\nsecond line"
    found = document(invoke(annotate, folder.id, "--tag", "b", "--tag", "a", "--note", note, "--json"))
    assert found == [{"run": folder.id, "tags": ["a", "b"], "note": note}]
    assert invoke(annotate, folder.id).output.splitlines() == [
        f"{folder.id}  a, b", "  before the new prompt", "  second line",
    ]  # fmt: skip
    for shown in (invoke(show).output, invoke(show, folder.id).output, invoke(show, episode).output):
        assert "a, b" in shown and "before the new prompt" in shown
    assert "run tags" in invoke(report).output
    rows = {row["agent"]: row for row in document(invoke(report, "--json"))}
    assert (rows["oracle"]["run_tags"], rows["oracle"]["run_notes"]) == (["a", "b"], {folder.id: note})
    assert (rows["other"]["run_tags"], rows["other"]["run_notes"]) == ([], {})
    manifest = document(invoke(export, "--run-tag", "a", "--out", tmp_path / "o", "--json"))
    assert manifest["episodes"] == [episode]
    assert manifest["runs"][folder.id]["tags"] == ["a", "b"]
    assert "new prompt" not in (tmp_path / "o.manifest.json").read_text()  # a note may be private
    out = tmp_path / "all.db"
    assert invoke(merge, "--out", out).exit_code == 0
    with closing(sqlite3.connect(out)) as db:
        assert db.execute("SELECT * FROM annotations").fetchall() == [(folder.id, '["a", "b"]', note)]


def test_annotations_are_outside_the_signatures(invoke: Invoke) -> None:
    folder, _ = record([(planned(), Episode())])
    before = {path.name: path.read_bytes() for path in folder.path.iterdir() if path.is_file()}
    invoke(annotate, folder.id, "--tag", "a", "--note", "x")
    assert invoke(verify).exit_code == 0
    after = {path.name: path.read_bytes() for path in folder.path.iterdir() if path.is_file()}
    assert after.keys() - before.keys() == {"annotations.json"}
    assert {name: after[name] for name in before} == before
    invoke(annotate, folder.id, "--remove-tag", "a", "--note", "")
    assert not (folder.path / "annotations.json").exists()


def test_a_run_can_be_annotated_while_it_is_recorded(invoke: Invoke) -> None:
    with RunFolder.create(run_info()) as folder:
        assert invoke(annotate, folder.id, "--tag", "now").exit_code == 0
    assert annotations.read_annotations(folder.path).tags == ("now",)


def test_many_at_the_same_time_lose_nothing(bench_home: Path) -> None:
    folder, _ = record([(planned(), Episode())])
    tags = [f"t{number:02}" for number in range(20)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda tag: annotations.annotate(folder.path, add=[tag]), tags))
    assert annotations.read_annotations(folder.path).tags == tuple(tags)


@pytest.mark.parametrize("tag", ["", "two words", "a,b", "-x", "x" * 65, "a\x1b[2J", "\u202ea"])
def test_a_tag_is_one_plain_word(invoke: Invoke, tag: str) -> None:
    folder, _ = record([(planned(), Episode())])
    error = invoke(annotate, folder.id, "--tag", tag).exception
    assert isinstance(error, WrongUseError) and "cannot be a run's tag" in str(error)


def test_an_unknown_tag_is_not_removed(invoke: Invoke) -> None:
    folder, _ = record([(planned(), Episode())])
    invoke(annotate, folder.id, "--tag", "baseline")
    error = invoke(annotate, folder.id, "--remove-tag", "basline").exception
    assert isinstance(error, UnknownNameError) and "did you mean baseline?" in str(error)


@pytest.mark.parametrize(
    "content", ["{", '{"tags": 3, "note": ""}', "[" * 100_000, '{"tags": [1], "note": ""}']
)
def test_a_damaged_file_hides_no_run(invoke: Invoke, content: str, caplog: pytest.LogCaptureFixture) -> None:
    folder, _ = record([(planned(), Episode())])
    (folder.path / "annotations.json").write_text(content)
    assert len(document(invoke(report, "--json"))) == 1
    assert "annotations.json" in caplog.text
    assert isinstance(invoke(annotate, folder.id, "--tag", "a").exception, StorageError)  # kept as it is
    assert (folder.path / "annotations.json").read_text() == content


def test_a_link_is_not_read(invoke: Invoke, tmp_path: Path) -> None:
    folder, _ = record([(planned(), Episode())])
    secret = tmp_path / "secret"
    secret.write_text('{"tags": ["stolen"], "note": ""}')
    (folder.path / "annotations.json").symlink_to(secret)
    assert "stolen" not in invoke(show).output
    assert isinstance(invoke(annotate, folder.id, "--tag", "a").exception, StorageError)
    assert secret.read_text() == '{"tags": ["stolen"], "note": ""}'


def test_a_note_that_is_not_utf_8_is_refused(invoke: Invoke) -> None:
    folder, _ = record([(planned(), Episode())])
    assert "the note is not UTF-8" in str(invoke(annotate, folder.id, "--note", "caf\udce9").exception)
