"""Scores with a unit and a direction, and rewards of steps: sealed, shown, averaged, compared, ranked by."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import Result

from mcp_bench.recorder.cli.export import export
from mcp_bench.recorder.cli.report import report
from mcp_bench.recorder.cli.show import show
from mcp_bench.recorder.cli.verify import verify
from mcp_bench.recorder.runs.reader import RunReader
from mcp_bench.recorder.runs.run_folder import RunFolder
from mcp_bench.servers.contracts import Score
from tests.support.archives import unpack
from tests.support.recorded import Episode, planned, play, record

pytestmark = pytest.mark.component

Invoke = Callable[..., Result]
OLD_HOME = Path(__file__).parents[1] / "old_home" / "home.tar.gz"
CALL = ("transfer", {"amount": 1}, "done")


def latency(value: float) -> Score:
    return Score(name="latency", value=value, better="lower", unit="ms", baseline=10, par=2)


MEASURED = Episode(
    partial=0.5,
    calls=(CALL, CALL, CALL),
    score=latency(4.5),
    submissions=(latency(9), latency(4.5)),
    certain=False,
    rewards={1: 0.25, 3: -1.0},
)


def run_of(*values: float | Score | None, agent: str) -> None:
    """Record an agent's attempts at the tasks t0, t1, ..., each with a score; all have the same grade."""
    scores = [value if value is None or isinstance(value, Score) else latency(value) for value in values]
    record([(planned(f"t{n}"), Episode(score=score)) for n, score in enumerate(scores)], agent=agent)


def document(invoke: Invoke, command: click.Command, *options: str | Path) -> Any:
    result = invoke(command, *options, "--json")
    assert result.exit_code == 0, result.exception
    return json.loads(result.stdout)


def test_a_unit_is_said_once() -> None:
    assert latency(4.5).words() == "latency 4.5 ms"
    assert Score(name="points", value=100, unit="points").words() == "points 100"


def test_a_reader_gets_what_was_stored(bench_home: Path, invoke: Invoke) -> None:
    folder, (episode,) = record([(planned(), MEASURED)])
    with RunReader(folder.path) as reader:
        stored = reader.episode(episode)
        assert (stored.score, stored.certain) == (latency(4.5), False)
        assert reader.submissions(episode) == [latency(9), latency(4.5)]
        assert reader.rewards(episode) == {1: 0.25, 3: -1.0}
    (found,) = document(invoke, verify)
    assert (found["verdict"], found["rows"]["scores"], found["rows"]["rewards"]) == ("verified", 1, 2)
    assert b"latency" not in (folder.path / "recordings.db").read_bytes()


def test_an_episode_without_them_has_no_rows(bench_home: Path, invoke: Invoke) -> None:
    folder, (episode,) = record([(planned(), Episode())])
    with RunReader(folder.path) as reader:
        stored = reader.episode(episode)
        assert (stored.score, stored.certain, reader.rewards(episode)) == (None, True, {})
        assert reader.submissions(episode) == []
    (found,) = document(invoke, verify)
    assert (found["rows"]["scores"], found["rows"]["rewards"]) == (0, 0)


@pytest.mark.parametrize(
    ("change", "finding"),
    [
        ("UPDATE scores SET certain = 1", ("scores", "edited")),
        ("DELETE FROM scores", ("scores", "removed")),
        ("UPDATE rewards SET reward = 5 WHERE execution = 3", ("rewards", "edited")),
        ("INSERT INTO rewards VALUES (9, 'ep', 1, 2.0, NULL)", ("rewards", "added")),
    ],
)
def test_verify_finds_a_change(
    bench_home: Path, invoke: Invoke, change: str, finding: tuple[str, str]
) -> None:
    folder, _ = record([(planned(), MEASURED)])
    with closing(sqlite3.connect(folder.path / "grades.db")) as db, db:
        db.execute(change)
    (found,) = json.loads(invoke(verify, "--json").stdout)
    (only,) = found["findings"]
    assert (found["verdict"], only["table"], only["change"]) == ("changed", *finding)


def test_a_run_of_an_earlier_version_gets_the_tables(bench_home: Path, invoke: Invoke) -> None:
    bench_home.mkdir()
    unpack(OLD_HOME, bench_home)
    old, *_ = sorted((bench_home / "runs").iterdir())
    with RunReader(old) as reader:
        before = list(reader.episodes())
        assert {(one.score, one.certain, one.trainable) for one in before} == {(None, True, True)}
        assert (reader.rewards(before[0].id), reader.submissions(before[0].id)) == ({}, [])
        assert reader.system(before[0].id) == ""
        summary, outcome = reader.summary(), reader.outcome()
    assert summary is not None
    with RunFolder.reopen(old):
        pass
    with RunReader(old) as reader:
        assert (reader.summary(), reader.outcome()) == (summary, outcome)
    with RunFolder.reopen(old) as again:
        episode = play(again, planned("more", system="Be brief.", trainable=False), MEASURED)
    with RunReader(old) as reader:
        assert reader.episode(before[0].id) == before[0]
        added = reader.episode(episode)
        assert (added.score, added.trainable, reader.system(episode)) == (latency(4.5), False, "Be brief.")
    (found,) = (one for one in json.loads(invoke(verify, "--json").stdout) if one["run"] == old.name)
    assert (found["verdict"], found["findings"]) == ("verified", [])


def test_show_prints_them_with_the_grade(bench_home: Path, invoke: Invoke) -> None:
    _, (episode,) = record([(planned(), MEASURED)])
    shown = invoke(show, episode).output
    for line in (
        "partial 0.500, not solved (grader g1), a model's judgement",
        "  score: latency 4.5 ms (lower is better, baseline 10 ms, par 2 ms)",
        "  2 submissions: 9 ms, 4.5 ms",
        "  rewards: -0.75 in all: call 1 +0.25, call 3 -1",
    ):
        assert line in shown
    grade = document(invoke, show, episode)["grade"]
    assert (grade["score"]["value"], grade["certain"], len(grade["submissions"])) == (4.5, False, 2)
    assert grade["rewards"] == [{"execution": 1, "reward": 0.25}, {"execution": 3, "reward": -1.0}]


def test_show_is_silent_about_what_there_is_not(bench_home: Path, invoke: Invoke) -> None:
    _, (episode,) = record([(planned(), Episode())])
    shown = invoke(show, episode).output
    assert not any(word in shown for word in ("score:", "submissions", "rewards", "judgement"))


def test_report_averages_one_measure_only(bench_home: Path, invoke: Invoke) -> None:
    run_of(4, 2, agent="same")
    run_of(4, Score(name="latency", value=2, better="lower", unit="s"), agent="units")
    run_of(4, None, agent="lacking")
    rows = {row["agent"]: row["score"] for row in document(invoke, report)}
    same = {"name": "latency", "unit": "ms", "better": "lower", "mean": 3.0, "ci": [2.0, 4.0]}
    assert rows == {"same": same, "units": None, "lacking": None}
    shown = invoke(report).output
    assert "score" in shown
    assert "latency 3 ms" in shown


def test_report_has_no_column_without_scores(bench_home: Path, invoke: Invoke) -> None:
    record([(planned(), Episode())])
    assert "score" not in invoke(report).output


def test_compare_pairs_scores_by_task(bench_home: Path, invoke: Invoke) -> None:
    run_of(4, 6, 1, None, agent="a")
    run_of(3, 2, 2, 1, agent="b")
    (row,) = document(invoke, report, "--compare", "a", "b")["rows"]
    (score,) = row["scores"]
    assert (score["common_tasks"], score["b_better"], score["b_worse"]) == (3, 2, 1)
    assert score["difference"] == pytest.approx((-1 - 4 + 1) / 3)
    shown = invoke(report, "--compare", "a", "b").output
    assert "latency (lower is better, 3 tasks): A 3.667 ms, B 2.333 ms, B - A: -1.333 [" in shown
    assert "B is better on 2, worse on 1" in shown


@pytest.mark.parametrize(("better", "best"), [("lower", 1), ("higher", 2)])
def test_the_best_attempt_is_the_one_with_the_best_score(
    bench_home: Path, invoke: Invoke, tmp_path: Path, better: Any, best: int
) -> None:
    values = (None, 2.0, 7.0)
    scores = [value and Score(name="speed", value=value, better=better) for value in values]
    stories = [(planned("t", repeat=n), Episode(score=score or None)) for n, score in enumerate(scores)]
    _, ids = record(stories)
    out = tmp_path / "best.jsonl"
    assert invoke(export, "--best", "1", "--out", out).exit_code == 0
    assert [json.loads(line)["id"] for line in out.read_text().splitlines()] == [ids[best]]


def exported(invoke: Invoke, out: Path, *options: str) -> set[str]:
    """Export, and return the tasks of the rows."""
    result = invoke(export, *options, "--out", out, "--force")
    assert result.exit_code == 0, result.exception
    return {json.loads(line)["task"] for line in out.read_text().splitlines()}


def test_compare_by_score_lists_what_differs(bench_home: Path, invoke: Invoke) -> None:
    run_of(4, 6, 1, 3, agent="a")
    run_of(3, 2, 2, 3, agent="b")
    shown = invoke(report, "--compare", "a", "b", "--by", "score").output
    lines = [line.strip() for line in shown.splitlines()]
    at = lines.index("B is better: 2")
    assert lines[at : at + 5] == [
        "B is better: 2",
        "agentdojo/t1  6 ms -> 2 ms",
        "agentdojo/t0  4 ms -> 3 ms",
        "B is worse: 1",
        "agentdojo/t2  1 ms -> 2 ms",
    ]
    assert "partial" not in shown
    (row,) = document(invoke, report, "--compare", "a", "b", "--by", "score")["rows"]
    (score,) = row["scores"]
    assert [flip["task"] for flip in score["flips"]["better"]] == ["agentdojo/t1", "agentdojo/t0"]
    assert len(score["flips"]["worse"][0]["episodes"]) == 2


def test_the_same_scores_in_another_order_are_no_difference(bench_home: Path, invoke: Invoke) -> None:
    """Floats are summed in the order of attempts."""
    for agent, values in (("a", (0.1, 0.2, 0.3)), ("b", (0.3, 0.2, 0.1))):
        stories = [(planned(repeat=n), Episode(score=latency(value))) for n, value in enumerate(values)]
        record(stories, agent=agent)
    assert sum((0.1, 0.2, 0.3)) != sum((0.3, 0.2, 0.1))
    (row,) = document(invoke, report, "--compare", "a", "b")["rows"]
    (score,) = row["scores"]
    assert (score["difference"], score["b_better"], score["b_worse"]) == (0, 0, 0)


def test_a_higher_score_can_be_better(bench_home: Path, invoke: Invoke) -> None:
    for agent, value in (("a", 1.0), ("b", 2.0)):
        run_of(Score(name="points", value=value), agent=agent)
    shown = invoke(report, "--compare", "a", "b", "--by", "score,domain").output
    assert "B is better: 1" in shown
    assert "B is worse: 0" in shown


def test_compare_by_score_says_when_there_is_none(bench_home: Path, invoke: Invoke) -> None:
    for agent in "ab":
        run_of(None, agent=agent)
    assert "no task has a measured score" in invoke(report, "--compare", "a", "b", "--by", "score").output


def test_a_failed_comparison_leaves_no_run_open(bench_home: Path, invoke: Invoke) -> None:
    """Both sides have the first episode; more would follow."""
    run_of(4, 6, agent="a")
    result = invoke(report, "--compare", "a", "agent=a")
    assert "is on both sides" in str(result.exception)
    held = [path.resolve() for path in Path("/proc/self/fd").iterdir()]
    assert not [path for path in held if bench_home in path.parents]


def test_by_score_needs_two_sides(bench_home: Path, invoke: Invoke) -> None:
    assert "--compare A B" in str(invoke(report, "--by", "score").exception)


def test_the_page_has_measured_scores(bench_home: Path, invoke: Invoke, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    run_of(4, 6, agent="a")
    run_of(3, 7, agent="b")
    out = tmp_path / "page.html"
    assert invoke(report, "--html", out, "--compare", "a", "b").exit_code == 0
    page = out.read_text()
    for text in ("latency 5 ms [4, 6]", "latency in ms, lower is better", "agentdojo/t1", "B is worse"):
        assert text in page


def test_a_list_of_episodes_has_their_scores(bench_home: Path, invoke: Invoke) -> None:
    folder, _ = record([(planned(), MEASURED)])
    assert "latency 4.5 ms" in invoke(show, folder.id).output
    assert document(invoke, show, folder.id)[0]["score"]["value"] == 4.5


@pytest.mark.parametrize(
    ("options", "kept"),
    [
        (("--min-score", "4"), {"t0", "t2"}),
        (("--min-score", "4", "--min-partial", "0.9"), set()),
        (("--min-par", "0.5"), {"t0", "t2"}),
        (("--min-par", "1"), {"t2"}),
        (("--min-par", "-1"), {"t0", "t1", "t2"}),
    ],
)
def test_export_keeps_good_scores(
    bench_home: Path, invoke: Invoke, tmp_path: Path, options: tuple[str, ...], kept: set[str]
) -> None:
    stories = [Episode(partial=0.25, score=value and latency(value)) for value in (4, 9, 1)]
    record([(planned(f"t{n}"), story) for n, story in enumerate([*stories, Episode(partial=0.25)])])
    if not kept:
        assert "nothing to export" in str(invoke(export, *options, "--out", tmp_path / "o.jsonl").exception)
    else:
        assert exported(invoke, tmp_path / "o.jsonl", *options) == kept


def test_a_share_of_par_may_follow_zero(bench_home: Path, invoke: Invoke, tmp_path: Path) -> None:
    run_of(10, Score(name="unbounded", value=3), agent="a")
    assert exported(invoke, tmp_path / "o.jsonl", "--min-par", "0") == {"t0"}


def test_one_value_cannot_be_for_two_measures(bench_home: Path, invoke: Invoke, tmp_path: Path) -> None:
    run_of(4, Score(name="length", value=4, unit="m"), agent="a")
    problem = str(invoke(export, "--min-score", "4", "--out", tmp_path / "o.jsonl").exception)
    assert "'latency' in ms (lower is better)" in problem
    assert "--min-par" in problem


@pytest.mark.parametrize(
    "options", [("--min-score", "nan"), ("--min-par", "inf"), ("--min-par", "1", "--pairs")]
)
def test_export_refuses_such_options(
    bench_home: Path, invoke: Invoke, tmp_path: Path, options: tuple[str, ...]
) -> None:
    run_of(4, agent="a")
    result = invoke(export, *options, "--out", tmp_path / "o.jsonl")
    assert "--min-" in f"{result.exception} {result.output}"
