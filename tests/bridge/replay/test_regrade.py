"""`mcp-bench regrade` on what the oracle recorded: the same comes out again, and what was changed does not."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_bench.bridge.replay.regrade import graded_episodes, regrade_all
from mcp_bench.bridge.replay.replay import Normal, value_differences
from mcp_bench.recorder.runs.find import run_paths
from mcp_bench.servers.registry import load
from tests.support.recorded import Episode, planned, record

pytestmark = pytest.mark.system

Bench = Any
"""The class of conftest.py."""
SCORE = '{"name": "latency", "value": 4.5, "unit": "ms", "better": "lower"}'


def regrade(bench: Bench, *arguments: str, code: int = 0) -> list[dict[str, Any]]:
    outcomes: list[dict[str, Any]] = json.loads(bench.run("regrade", *arguments, "--json", code=code).stdout)
    return outcomes


def sql(bench: Bench, statement: str, database: str = "recordings.db") -> None:
    with closing(sqlite3.connect(bench.run_folder / database)) as db, db:
        changed = db.execute(statement).rowcount
    assert changed == 1, statement


def test_replayed_oracle_episodes_are_the_same(bench: Bench) -> None:
    bench.run("record", "--agent", "oracle", "--limit", "4", "--agent-option", "drop=0.3", "--jobs", "2")
    before = {path.name: path.read_bytes() for path in bench.run_folder.glob("*.db")}
    outcomes = regrade(bench)
    assert [outcome["status"] for outcome in outcomes] == ["same"] * 4
    graded = {
        row["episode"]: {"partial": row["partial"], "strict": bool(row["strict"])} for row in bench.grades()
    }
    assert {outcome["episode"]: outcome["grade_now"] for outcome in outcomes} == graded
    assert len({grade["partial"] for grade in graded.values()}) > 1  # some calls were dropped
    assert sum(outcome["calls"] for outcome in outcomes) == len(bench.rows("select 1 from calls"))
    assert {path.name: path.read_bytes() for path in bench.run_folder.glob("*.db")} == before
    bench.run("verify")
    message = bench.run("regrade", bench.run_folder.name, "--jobs", "1").stdout
    assert message.splitlines()[-1] == "4 graded episodes: 4 same"

    run = bench.run_folder
    kept = Path(shutil.copytree(run, bench.home / "kept"))
    first = outcomes[0]["episode"]
    call = f"(SELECT id FROM calls WHERE episode = '{first}' AND execution = 1)"
    answer = f"(SELECT response_frame FROM calls WHERE id = {call})"
    tampered: dict[str, tuple[tuple[str, str], tuple[str, int | None]]] = {
        "a result": (
            (f"UPDATE frames SET body = replace(body, ':', ': ') WHERE id = {answer}", "recordings.db"),
            ("result", 1),
        ),
        "an argument": (
            (f"UPDATE calls SET arguments = '{{\"nothing\": 1}}' WHERE id = {call}", "recordings.db"),
            ("result", 1),
        ),
        "a grade": (
            (f"UPDATE grades SET partial = 0.125, strict = 0 WHERE episode = '{first}'", "grades.db"),
            ("grade", None),
        ),
        "a measured score": (
            (f"INSERT INTO scores (episode, score, certain) VALUES ('{first}', '{SCORE}', 1)", "grades.db"),
            ("grade", None),
        ),
        "a submission": (
            (
                f"INSERT INTO scores (episode, submissions, certain) VALUES ('{first}', '[{SCORE}]', 1)",
                "grades.db",
            ),
            ("grade", None),
        ),
        "a reward": (
            (f"INSERT INTO rewards (episode, execution, reward) VALUES ('{first}', 1, 0.5)", "grades.db"),
            ("result", 1),
        ),
        "a state": (
            (f"UPDATE grades SET final_state = '{{}}' WHERE episode = '{first}'", "grades.db"),
            ("state", None),
        ),
    }
    for name, ((statement, database), (what, number)) in tampered.items():
        shutil.rmtree(run)
        shutil.copytree(kept, run)
        sql(bench, statement, database)
        changed, *others = regrade(bench, code=1)
        assert {outcome["status"] for outcome in others} == {"same"}, name
        assert changed["status"] == "differs"
        assert (what, number) in {(found["what"], found["call"]) for found in changed["differences"]}, name
        assert bench.run("verify", code=1).stdout
    human = bench.run("regrade", code=1).stdout
    assert "state" in human and "recorded" in human


def test_rewards_of_steps_are_compared(bench: Bench) -> None:
    bench.run("record", "--agent", "oracle", "--benchmark", "counter", "--task", "game")
    (outcome,) = regrade(bench)
    assert outcome["status"] == "same" and bench.rows("select 1 from rewards", database="grades.db")
    sql(bench, "UPDATE rewards SET reward = 0.5 WHERE execution = 2", "grades.db")
    (outcome,) = regrade(bench, code=1)
    (found,) = outcome["differences"]
    assert (found["where"], found["call"]) == ("reward", 2)
    assert (found["recorded"], found["now"]) == (0.5, 0.43219876505)


def test_agentdojo_ignores_times(bench: Bench) -> None:
    """A sent email contains the time of day."""
    bench.run(
        "record", "--agent", "oracle", "--benchmark", "agentdojo", "--task", "travel/user_task_3",
        "--task", "workspace/user_task_6", "--agent-option", "drop=0.2",
    )  # fmt: skip
    assert [outcome["status"] for outcome in regrade(bench)] == ["same", "same"]
    sql(bench, "UPDATE frames SET body = replace(body, 'Luxury Palace', 'Hovel') WHERE id = (SELECT response_frame"
               " FROM calls WHERE tool = 'get_all_hotels_in_city')")  # fmt: skip
    (found,) = [outcome for outcome in regrade(bench, code=1) if outcome["status"] == "differs"]
    (difference,) = found["differences"]
    assert (difference["call"], difference["tool"], difference["where"]) == (
        1,
        "get_all_hotels_in_city",
        "text",
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("benchmark_version = '0'", "but 1 is installed"),
        ("benchmark_version = 'unknown'", "it was imported"),
        ("benchmark = 'notebok'", "did you mean notebook"),
    ],
)
def test_impossible_replays_say_why(
    bench: Bench, script: Callable[[str], str], change: str, message: str
) -> None:
    calls = 'server = Server(); server.connect(); server.call("write", key="a", value="b"); server.call("nothing")'
    bench.run(
        "record",
        "--agent",
        "script",
        "--benchmark",
        "notebook",
        "--limit",
        "1",
        "--agent-option",
        script(calls),
    )
    (outcome,) = regrade(bench)
    assert (outcome["status"], outcome["calls"]) == ("same", 1)
    sql(bench, f"UPDATE runs SET {change}")
    (outcome,) = regrade(bench, code=1)
    assert (outcome["status"], outcome["grade_now"]) == ("not possible", None)
    assert message in outcome["detail"]


def test_a_timeout_of_the_benchmark_is_not_that_of_the_replay(monkeypatch: pytest.MonkeyPatch) -> None:
    saasworld = load("benchmark", "saasworld")
    record(
        [(planned(next(saasworld.tasks("train", 1)).id), Episode(calls=[]))],
        benchmark="saasworld",
        benchmark_version=saasworld.version,
    )

    async def times_out(*_: object, **__: object) -> None:
        raise TimeoutError("the shop does not answer")

    monkeypatch.setattr(type(saasworld), "open", times_out)
    [one] = anyio.run(regrade_all, list(graded_episodes(run_paths())), 1, lambda _: None)
    assert (one.status, one.detail) == ("not possible", "TimeoutError: the shop does not answer")


def test_a_damaged_run_is_left_out_and_named(bench: Bench) -> None:
    bench.run("record", "--agent", "oracle", "--benchmark", "counter", "--task", "game")
    damaged = bench.home / "runs" / "run_damaged"
    damaged.mkdir()
    (damaged / "recordings.db").write_bytes(b"not a database, " * 99)
    done = bench.run("regrade", code=1)
    assert done.stdout.splitlines()[-1] == "1 graded episodes: 1 same"
    assert "left out: " in done.stderr and "run_damaged" in done.stderr
    assert "run_damaged" in bench.run("regrade", "run_damaged", code=1).stderr


def test_without_graded_episodes_there_is_nothing_to_do(bench: Bench) -> None:
    assert regrade(bench) == []
    assert "no graded episode" in bench.run("regrade").stdout
    assert "run_x" in bench.run("regrade", "run_x", code=2).stderr


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abt"), inner, max_size=3),
    max_leaves=8,
)


@given(then=JSON, now=JSON)
def test_two_values_differ_where_they_differ(then: Any, now: Any) -> None:
    found = list(value_differences(then, now, Normal(())))
    assert bool(found) == (json.dumps(then, sort_keys=True) != json.dumps(now, sort_keys=True))
    assert list(value_differences(then, then, Normal(("t",)))) == []


@given(before=JSON, after=JSON)
def test_ignored_fields_do_not_count_and_others_do(before: Any, after: Any) -> None:
    normal = Normal(("t",))
    pair = [{"x": [{"t": value, "a": 1}]} for value in (before, after)]
    assert list(value_differences(*pair, normal)) == []
    assert normal.text(json.dumps(pair[0])) == normal.text(json.dumps(pair[1]))
    assert normal.text("- id: 1\n  t: now\n  text: a") == normal.text("- id: 1\n  t: then\n  text: a")
    assert normal.text("- id: 1\n  t: now\n  text: a") != normal.text("- id: 2\n  t: now\n  text: a")
    assert normal.text("text: a") != normal.text("text: b")
