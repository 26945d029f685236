"""A home, its runs, episodes, scores and exports, in Python."""

import dataclasses
import json
import sqlite3
import subprocess
import sys
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pandas
import polars
import pytest

from mcp_bench.api import (
    Episode,
    Home,
    RunLockedError,
    Selection,
    StorageError,
    UnknownNameError,
    UnreadableRunWarning,
    WrongUseError,
    open_home,
)
from mcp_bench.recorder.runs.reader import RunReader
from mcp_bench.recorder.runs.run_folder import RunFolder
from tests.support.bench_commands import Bench
from tests.support.recorded import Episode as Story
from tests.support.recorded import planned, record

pytestmark = pytest.mark.component

STORIES = [
    (planned("t0"), Story(calls=(("transfer", {"amount": 1}, "done"), ("look", {}, "!no")), partial=1.0)),
    (planned("t1"), Story(partial=0.5, calls=())),
    (planned("t2"), Story(partial=None, invalid="endpoint_error", detail="")),
]


@pytest.fixture
def home(bench_home: Path) -> Home:
    """Two runs, one of codex and one of oracle."""
    record(STORIES, agent="codex", model="m", benchmark="homemade")
    record(STORIES[:2], agent="oracle", benchmark="homemade")
    return open_home()


def test_a_home_leads_to_runs_episodes_and_calls(home: Home, bench_home: Path) -> None:
    codex, oracle = home.runs()
    assert home.path == bench_home
    assert (codex.info.agent, oracle.info.agent, codex.info.model) == ("codex", "oracle", "m")
    assert home.run(codex.id) == codex
    found = codex.summary
    assert (found.episodes, found.done, found.invalid, found.solved) == (3, 2, 1, 1)
    assert (found.partial, found.strict, found.tool_calls) == (0.75, 0.5, 3)
    assert (found.input_tokens, found.cost_usd) == (30, None)
    assert f"{codex.id}: codex on homemade, 2 of 3 episodes done, partial 0.750" in repr(codex)
    first = codex.episodes()[0]
    assert [call.tool for call in first.calls()] == ["transfer", "look"]
    assert [call.outcome for call in first.calls()] == ["ok", "tool_error"]
    assert first.calls()[0].args == {"amount": 1}
    assert len(codex.calls()) == 3
    assert len(home.calls(agents="codex")) == 3


def test_an_episode_leads_to_its_grade_and_conversation(home: Home) -> None:
    first, second, third = home.runs()[0].episodes()
    assert [one.outcome for one in (first, second, third)] == ["solved", "failed", "invalid"]
    assert first.grade is not None and first.grade.partial == 1.0
    assert [(check.name, check.passed) for check in first.assertions] == [("sent", True)]
    assert third.grade is None and third.assertions == () and third.partial is None
    assert first.final_state() == {"balance": "SEALED-STATE"}
    assert first.trajectory().messages[0].content == "Please do t0."
    assert home.episode(first.id) == first
    assert home.episode(first.id[:-1]).id == first.id
    assert (first.started.tzinfo, first.flags, first.evidence_of_taint) == (UTC, (), ())
    assert first.log() == ""
    assert "codex on t1, failed, partial 0.50" in repr(second)


def test_episodes_are_chosen_by_name(home: Home) -> None:
    assert {one.agent for one in home.episodes(agents="oracle")} == {"oracle"}
    assert len(home.episodes(agents=["oracle", "codex"], tasks="t1")) == 2
    assert len(home.episodes(runs=home.runs()[1].id)) == 2
    assert len(home.episodes(models="m", splits="train", benchmarks="homemade", domains="banking")) == 3
    with pytest.raises(UnknownNameError, match=r"unknown agent 'codx' \(did you mean codex\?\)"):
        home.episodes(agents="codx")
    with pytest.raises(TypeError, match="there is no filter agent: use runs, agents"):
        home.episodes(agent="codex")  # type: ignore[call-arg]
    with pytest.raises(UnknownNameError, match="unknown run"):
        home.run("run_none")
    with pytest.raises(UnknownNameError, match="unknown episode"):
        home.episode("ep_none")
    with pytest.raises(WrongUseError, match="give a longer prefix"):
        home.episode("ep_")


def test_pandas_and_polars_read_the_rows(home: Home) -> None:
    episodes = home.episodes()
    for rows in (episodes, home.calls()):
        for frame in (pandas.DataFrame(rows), polars.DataFrame(rows)):
            assert tuple(frame.columns) == rows.columns
            assert len(frame) == len(rows)
    assert pandas.DataFrame(episodes)["partial"].mean() == pytest.approx(0.75)
    assert polars.DataFrame(episodes)["tool_calls"].sum() == 5


def test_frames_have_the_right_types(home: Home) -> None:
    frame = home.episodes().to_pandas()
    types = {name: str(kind) for name, kind in frame.dtypes.items()}
    assert types["partial"] == "Float64" and types["tool_calls"] == "Int64" and types["strict"] == "boolean"
    assert types["task"] == "string" and types["started"] == "datetime64[us, UTC]"
    assert types["cost_usd"] == "Float64" and frame["cost_usd"].isna().all()
    assert frame["strict"].isna().sum() == 1
    read = home.episodes().to_polars()
    assert read.schema["cost_usd"] == polars.Float64 and read["cost_usd"].null_count() == len(read)
    assert read.schema["started"] == polars.Datetime("us", "UTC")
    assert read.schema["strict"] == polars.Boolean and read.schema["tool_calls"] == polars.Int64
    assert home.calls().to_polars().schema["arguments"] == polars.String
    assert json.loads(home.calls().to_pandas()["arguments"].iloc[0]) == {"amount": 1}


def test_an_empty_frame_has_all_columns(bench_home: Path) -> None:
    episodes = open_home().episodes()
    assert len(episodes) == 0 and open_home().runs() == []
    assert list(episodes.to_pandas().columns) == list(episodes.columns)
    assert episodes.to_polars().schema["seconds"] == polars.Float64


def test_a_frame_is_an_immutable_sequence(home: Home) -> None:
    episodes = home.episodes()
    assert isinstance(episodes[0], Episode) and len(episodes[1:3]) == 2 and episodes[1:3] == episodes[1:3]
    assert [field.name for field in dataclasses.fields(Episode)] == list(episodes.columns)
    with pytest.raises(dataclasses.FrozenInstanceError):
        episodes[0].partial = 1.0  # type: ignore[misc]
    assert repr(episodes) == "<5 rows of Episode>"
    assert "codex" in (episodes._repr_html_() or "")


def test_scores_are_those_of_the_report(home: Home, bench: Bench) -> None:
    printed = bench.report()
    scores = home.scores()
    assert [dict(row.details) for row in scores] == json.loads(json.dumps(printed))
    for row, score in zip(printed, scores, strict=True):
        assert (score.agent, score.partial, score.invalid) == (row["agent"], row["partial"], row["invalid"])
        assert score.partial_ci is None or list(score.partial_ci) == row["partial_ci"]
    (both,) = home.scores(by=["benchmark"])
    assert (both.agent, both.episodes) == ("*", 5)
    assert list(scores.to_pandas()["partial"]) == [0.75, 0.75]
    assert scores.to_polars()["agent"].to_list() == ["codex", "oracle"]
    with pytest.raises(UnknownNameError, match="unknown group 'agnt'"):
        home.scores("agnt")


def test_two_sides_are_compared(home: Home, bench: Bench) -> None:
    printed = json.loads(bench.run("report", "--compare", "codex", "oracle", "--json").stdout)
    found = home.compare("codex", "oracle", by="benchmark")
    assert (found.a, found.b) == ("codex", "oracle")
    (row,) = found.rows
    assert dict(row.group) == {"benchmark": "homemade"}
    assert row.common_tasks == printed["rows"][0]["common_tasks"] == 2
    assert row.partial.difference == 0.0 and row.fail_to_pass == ()
    with pytest.raises(UnknownNameError):
        home.compare("codex", "gemini")
    with pytest.raises(UnknownNameError, match="unknown group"):
        home.compare("codex", "oracle", by="agent")


def test_exports_are_those_of_the_command(home: Home, bench: Bench, tmp_path: Path) -> None:
    theirs = tmp_path / "theirs.jsonl"
    words = ("--on-leak", "allow", "--agent", "codex", "--min-partial", "0.4", "--out", theirs)
    bench.run("export", *words)
    chosen = Selection(on_leak="allow", agents=("codex",), min_partial=0.4)
    manifest = home.export(tmp_path / "ours.jsonl", chosen)
    assert manifest.data.read_bytes() == theirs.read_bytes()
    assert (manifest.rows, manifest.format, manifest.funnel["rows_out"]) == (2, "trl", 2)
    assert set(manifest.episodes) == {one.id for one in home.episodes(agents="codex") if one.partial}
    with pytest.raises(WrongUseError, match="already exists"):
        home.export(tmp_path / "ours.jsonl", chosen)


def test_a_script_that_exports_much_runs_once(home: Home, tmp_path: Path) -> None:
    """It has no `if __name__ == "__main__":`, which a script with several processes needs."""
    script = tmp_path / "script.py"
    script.write_text(
        "from mcp_bench.api import Selection, open_home\n"
        "from mcp_bench.recorder.curation import pipeline\n"
        "print('recorded', flush=True)\n"
        "pipeline.MANY, pipeline.PART, pipeline.cores = 2, 1, lambda: 2  # as with 400 episodes, on two cores\n"
        f"print(open_home({str(home.path)!r}).export('rows.jsonl', Selection(on_leak='allow')).rows)\n"
    )
    command = [sys.executable, str(script)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path, timeout=100)
    assert done.stdout.split() == ["recorded", "4"]


def test_a_cohort_and_steps_have_any_score_by_default(bench_home: Path, tmp_path: Path) -> None:
    record([(planned("t0"), Story(partial=0.2)), (planned("t0", repeat=1), Story(partial=0.9))])
    for number, (cohort, grade) in enumerate([("low", 0.2), ("high", 0.9)]):
        chosen = Selection(cohort=cohort, size=1, on_leak="allow")
        found = open_home().export(tmp_path / f"{number}.jsonl", chosen)
        assert [open_home().episode(name).partial for name in found.episodes] == [grade]
    better = open_home().export(tmp_path / "all.jsonl", Selection(on_leak="allow"))
    assert (better.rows, better.document["selection"]["min_partial"]) == (1, 0.5)


def test_preference_pairs_are_exported(bench_home: Path, tmp_path: Path) -> None:
    record([(planned("t0"), Story(partial=0.2)), (planned("t0", repeat=1), Story(partial=0.9))])
    assert open_home().export(tmp_path / "pairs.jsonl", Selection(on_leak="allow"), pairs=True).rows == 1


def test_a_home_without_runs_is_merged_into_empty_tables(bench_home: Path, tmp_path: Path) -> None:
    assert not open_home().merge(tmp_path / "all.db")
    with closing(sqlite3.connect(tmp_path / "all.db")) as merged:
        assert merged.execute("SELECT * FROM episode_summary").fetchall() == []


def test_runs_are_verified_merged_and_deleted(home: Home, tmp_path: Path) -> None:
    codex, oracle = home.runs()
    assert [verdict.state for verdict in home.verify()] == ["verified", "verified"]
    assert codex.verify().state == "verified"
    assert home.merge(tmp_path / "all.db")["episodes"] == 5
    home.delete_run(oracle.id)
    assert home.runs() == [codex] and repr(oracle) == f"<Run {oracle.id}>"
    assert [verdict.state for verdict in home.verify()] == ["verified"]
    with RunFolder.reopen(codex.path), pytest.raises(RunLockedError):
        home.delete_run(codex.id)


def test_rows_of_other_tools_are_imported(home: Home, tmp_path: Path) -> None:
    rows = home.export(tmp_path / "rows.jsonl", Selection(on_leak="allow")).data
    other = open_home(tmp_path / "other")
    found = other.import_(rows, format="trl", benchmark="elsewhere")
    assert (found.imported, found.bad) == (4, [])
    assert {one.benchmark for one in other.episodes()} == {"elsewhere"}
    assert {one.benchmark for one in home.episodes()} == {"homemade"}


def test_a_home_of_its_own_leaves_the_usual_one(home: Home, tmp_path: Path) -> None:
    other = open_home(str(tmp_path / "other"))
    assert other.runs() == [] and other.verify() == []
    assert len(home.runs()) == 2


def test_a_damaged_run_is_named_and_hides_no_other(home: Home) -> None:
    broken = home.runs()[0].path / "recordings.db"
    broken.write_bytes(b"not a database, but long enough to be looked at" * 100)
    with pytest.warns(UnreadableRunWarning, match="is damaged or not an SQLite database"):
        assert len(home.runs()) == 1
    with pytest.warns(UnreadableRunWarning):
        assert len(home.episodes()) == 2
    with pytest.raises(StorageError):
        home.run(broken.parent.name).episodes()


def test_times_are_exact(home: Home) -> None:
    one: Any = home.episodes()[0]
    with RunReader(home.run(one.run).path) as reader:
        stored = reader.episode(one.id)
    assert one.started == datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=stored.started_us)
    assert stored.ended_us is not None
    assert one.seconds == pytest.approx((stored.ended_us - stored.started_us) / 1e6)
