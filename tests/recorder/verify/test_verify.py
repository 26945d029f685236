"""`mcp-bench verify` finds and names every change made to a recorded run with plain SQLite."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from typing import Any

import anyio
import pytest
from click.testing import Result
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from mcp_bench.recorder.cli.verify import verify
from mcp_bench.recorder.frames.body import GrowingBody
from mcp_bench.recorder.records import new_id, now_us
from mcp_bench.recorder.runs.parts import resume_run
from mcp_bench.recorder.runs.run_folder import RunFolder, remove_run
from mcp_bench.recorder.store.keys import own_key
from mcp_bench.recorder.store.model_calls import ModelRequest, ModelResponse
from mcp_bench.recorder.store.model_calls import begin as begin_model_call
from mcp_bench.recorder.store.model_calls import settle as settle_model_call
from mcp_bench.recorder.store.signatures import SEALED
from mcp_bench.recorder.taint import Scan, fresh
from tests.support.recorded import Episode, begin, planned, play, record, request, response, run_info

pytestmark = pytest.mark.system

Invoke = Callable[..., Result]
Change = tuple[str, str, str]
"""Table, row, kind of change."""

TWO_CALLS = Episode(calls=[("transfer", {"amount": 1}, "done"), ("transfer", {"amount": 2}, "!no money")])
KEYS = {
    "runs": ("id",),
    "episodes": ("id",),
    "frames": ("id",),
    "calls": ("id",),
    "messages": ("episode", "position"),
    "model_calls": ("id",),
    "model_tokens": ("call",),
    "flags": ("id",),
    "seals": ("subject",),
    "grades": ("episode",),
    "scans": ("episode",),
    "canaries": ("place",),
}


TOKENS = b"""{"choices": [{"finish_reason": "stop", "message": {"content": "x"}}], "prompt_token_ids": [1, 2],
"token_ids": [3], "token_logprobs": [-0.5], "system_fingerprint": "7"}"""
"""An answer of an engine that reports tokens."""


async def captured(folder: RunFolder, episode: str, text: bytes) -> None:
    """Store one call of the agent to its model, as the capturing proxy does."""
    request_ = ModelRequest(
        new_id("mc"), episode, now_us(), "POST", "/v1/chat/completions", {}, b'{"messages": []}'
    )
    await begin_model_call(folder.recording.writer, request_)
    body = GrowingBody(large=1)
    body.add(text)
    response_ = ModelResponse(now_us(), now_us(), 200, {}, body.take(), "complete")
    await settle_model_call(folder.recording.writer, request_, response_)


@pytest.fixture
def run(bench_home: Path) -> Path:
    """A closed run: two graded episodes, an invalid one, frames of no episode, captured model calls."""
    with RunFolder.create(run_info(planned("a"), planned("b"), planned("c"))) as folder:
        folder.recording.store_frame(None, 1, "client", b'{"jsonrpc":"2.0","id":0,"method":"initialize"}\n')
        for slot in folder.info.plan[:2]:
            episode = play(folder, slot, TWO_CALLS)
            folder.grades.put_scan(episode, Scan("clean"), now_us())
            folder.grades.put_canary(fresh(slot.task), now_us())
        invalid = begin(folder, folder.info.plan[2])
        for text in (TOKENS, b'{"second": 2}'):
            anyio.run(captured, folder, invalid, text)
        folder.recording.flag(invalid, "wrong_token", "process 7")
        folder.recording.flag(None, "foreign_peer", "process 8")
        folder.recording.identify(invalid, "somebody", "1.0")
        folder.recording.mark_died(folder.grades.graded())
        folder.recording.store_frame(None, 1, "client", b"\xff\0 no JSON\n")
    return folder.path


def verdicts(invoke: Invoke, *arguments: str | Path) -> tuple[int, list[dict[str, Any]]]:
    result = invoke(verify, *arguments, "--json")
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, json.loads(result.stdout)


def changes(invoke: Invoke) -> set[Change]:
    """Verify the only run, and return its findings."""
    code, (verdict,) = verdicts(invoke)
    assert (code, verdict["verdict"]) == ((1, "changed") if verdict["findings"] else (0, "verified")), verdict
    return {(found["table"], found["row"], found["change"]) for found in verdict["findings"]}


def sql(
    path: Path, statement: str, *values: object, database: str = "recordings.db"
) -> list[tuple[Any, ...]]:
    """Run a statement, as anybody with an SQLite tool can."""
    with closing(sqlite3.connect(path / database)) as db, db:
        return db.execute(statement, values).fetchall()


def test_an_unchanged_run_is_verified(run: Path, invoke: Invoke) -> None:
    code, (verdict,) = verdicts(invoke)
    counts = {
        "runs": 1,
        "episodes": 3,
        "frames": 10,
        "calls": 4,
        "model_calls": 2,
        "model_tokens": 1,
        "flags": 2,
        "grades": 2,
    }
    assert (code, verdict["verdict"], verdict["findings"]) == (0, "verified", [])
    assert verdict["rows"].items() >= counts.items()
    assert verdict["key"] == own_key().id
    human = invoke(verify)
    assert (human.exit_code, human.stdout.split()[:2]) == (0, [run.name, "verified"])


EPISODES = "(SELECT id FROM episodes ORDER BY id LIMIT 1 OFFSET {})"
FIRST, SECOND = EPISODES.format(0), EPISODES.format(1)


@pytest.mark.parametrize(
    ("database", "statements", "found"),
    [
        ("recordings", ["UPDATE frames SET body = replace(body, 'done', 'DONE') WHERE id = 3"],
         {("frames", "3", "edited")}),
        ("recordings", ["UPDATE frames SET tag = x'00' WHERE id = 3"], {("frames", "3", "edited")}),
        ("recordings", ["UPDATE frames SET link = x'00' WHERE id = 3"], {("frames", "3", "edited")}),
        ("recordings", ["DELETE FROM frames WHERE id = 3"], {("frames", "3", "removed")}),
        ("recordings", ["DELETE FROM frames WHERE id >= 9"],
         {("frames", "9", "removed"), ("frames", "10", "removed")}),
        ("recordings", ["INSERT INTO frames SELECT 11, episode, connection, direction, stored_us, kind, method,"
                        " rpc_id, tag, link, body FROM frames WHERE id = 10"], {("frames", "11", "added")}),
        ("recordings", ["UPDATE frames SET id = 99 WHERE id = 3", "UPDATE frames SET id = 3 WHERE id = 5",
                        "UPDATE frames SET id = 5 WHERE id = 99"],
         {("frames", "3", "moved"), ("frames", "5", "moved")}),
        ("recordings", ["UPDATE calls SET outcome = 'ok' WHERE id = 2"], {("calls", "2", "edited")}),
        ("recordings", ["DELETE FROM calls WHERE id = 2"], {("calls", "2", "removed")}),
        ("recordings", ["INSERT INTO calls SELECT 5, episode, connection, rpc_id, tool, arguments, execution,"
                        " outcome, started_us, ended_us, request_frame, response_frame, tag FROM calls"
                        " WHERE id = 1"], {("calls", "5", "added")}),
        ("recordings", ["UPDATE calls SET id = 99 WHERE id = 1", "UPDATE calls SET id = 1 WHERE id = 2",
                        "UPDATE calls SET id = 2 WHERE id = 99"],
         {("calls", "1", "moved"), ("calls", "2", "moved")}),
        ("recordings", [f"DELETE FROM messages WHERE episode = {FIRST} AND position = 2"],
         {("messages", "2", "removed")}),
        ("recordings", [f"UPDATE messages SET content = 'x' WHERE episode = {FIRST} AND position = 2"],
         {("messages", "2", "edited")}),
        ("recordings", ["UPDATE model_calls SET response = x'00' WHERE id = (SELECT max(id) FROM model_calls)"],
         {("model_calls", "<max>", "edited")}),
        ("recordings", ["DELETE FROM model_calls WHERE id = (SELECT max(id) FROM model_calls)"],
         {("model_calls", "<max>", "removed")}),
        ("recordings", ["UPDATE model_tokens SET logprobs = x'00000000'"], {("model_tokens", "<min>", "edited")}),
        ("recordings", ["DELETE FROM model_tokens"], {("model_tokens", "<min>", "removed")}),
        ("recordings", ["UPDATE flags SET detail = 'nothing' WHERE id = 1"], {("flags", "1", "edited")}),
        ("recordings", ["UPDATE flags SET episode = NULL WHERE id = 1"], {("flags", "1", "edited")}),
        ("recordings", ["DELETE FROM flags WHERE id = 1"], {("flags", "1", "removed")}),
        ("recordings", ["DELETE FROM flags WHERE id = 2"], {("flags", "2", "removed")}),
        ("recordings", ["UPDATE episodes SET invalid = NULL WHERE invalid IS NOT NULL"],
         {("episodes", "<third>", "edited")}),
        ("recordings", ["UPDATE runs SET agent = 'other'"], {("runs", "<run>", "edited")}),
        ("recordings", ["UPDATE runs SET plan = ''"], {("runs", "<run>", "edited")}),
        ("recordings", ["UPDATE runs SET key = '0000000000000000'"], {("runs", "<run>", "edited")}),
        ("recordings", ["DELETE FROM runs"], {("runs", "<run>", "removed")}),
        ("recordings", ["DELETE FROM seals WHERE subject LIKE 'run%'"], {("seals", "<run>", "removed")}),
        ("grades", ["UPDATE grades SET partial = 1, strict = 1 WHERE episode = (SELECT max(episode) FROM grades)",
                    "UPDATE grades SET metrics = '{}' WHERE episode = (SELECT max(episode) FROM grades)"],
         {("grades", "<second>", "edited")}),
        ("grades", ["DELETE FROM grades WHERE episode = (SELECT max(episode) FROM grades)"],
         {("grades", "<second>", "removed")}),
        ("grades", ["INSERT INTO grades SELECT 'ep_x', partial, strict, assertions, metrics, grader_version,"
                    " final_state, graded_us, recording, tag FROM grades LIMIT 1"],
         {("grades", "ep_x", "added"), ("seals", "ep_x", "removed")}),
        ("grades", ["UPDATE grades SET episode = 'x' WHERE episode = (SELECT min(episode) FROM grades)",
                    "UPDATE grades SET episode = '<first>' WHERE episode <> 'x'",
                    "UPDATE grades SET episode = '<second>' WHERE episode = 'x'"],
         {("grades", "<first>", "moved"), ("grades", "<second>", "moved"), ("seals", "<first>", "edited"),
          ("seals", "<second>", "edited")}),
    ],
)  # fmt: skip
def test_each_change_is_found_and_named(
    run: Path, invoke: Invoke, database: str, statements: list[str], found: set[Change]
) -> None:
    ids = dict(
        zip(["<first>", "<second>", "<third>"], sql(run, "SELECT id FROM episodes ORDER BY id"), strict=True)
    )
    ids |= {"<max>": sql(run, "SELECT max(id) FROM model_calls")[0], "<run>": (run.name,)}
    ids |= {"<min>": sql(run, "SELECT min(id) FROM model_calls")[0]}

    def named(text: str) -> str:
        for mark, (value,) in ids.items():
            text = text.replace(mark, value)
        return text

    for statement in statements:
        sql(run, named(statement), database=f"{database}.db")
    assert changes(invoke) == {(table, named(row), change) for table, row, change in found}


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    deadline=None,
    max_examples=60,
)
@given(data=st.data())
def test_any_change_of_one_row_is_found(
    run: Path, invoke: Invoke, tmp_path: Path, data: st.DataObject
) -> None:
    kept = tmp_path / "kept"
    if not kept.exists():
        shutil.copytree(run, kept)
    shutil.rmtree(run)
    shutil.copytree(kept, run)
    table = data.draw(st.sampled_from(sorted(KEYS)))
    database = "grades.db" if table in SEALED else "recordings.db"
    if table == "seals":
        database = data.draw(st.sampled_from(["recordings.db", "grades.db"]))
    with closing(sqlite3.connect(run / database)) as db:
        db.row_factory = sqlite3.Row
        before = [dict(row) for row in db.execute(f"SELECT * FROM {table}")]
        row = data.draw(st.sampled_from(before))
        where = " AND ".join(f"{name} IS ?" for name in KEYS[table])
        values = [row[name] for name in KEYS[table]]
        match data.draw(st.sampled_from(["edit", "copy value", "remove", "repeat", "swap"])):
            case "edit":
                value = data.draw(
                    st.none() | st.integers(-3, 3) | st.text(max_size=5) | st.binary(max_size=5)
                )
                changed = [(where, values, {data.draw(st.sampled_from(sorted(row))): value})]
            case "copy value":
                column = data.draw(st.sampled_from(sorted(row)))
                changed = [(where, values, {column: data.draw(st.sampled_from(before))[column]})]
            case "swap":
                other = data.draw(st.sampled_from(before))
                theirs = {name: row[name] for name in row if name not in KEYS[table]}
                mine = {name: other[name] for name in theirs}
                changed = [(where, values, mine), (where, [other[name] for name in KEYS[table]], theirs)]
            case "repeat":
                number = data.draw(st.integers(-5, 50)) if table in ("frames", "calls", "messages") else "x"
                fresh = {**row, KEYS[table][-1]: number}
                changed = []
                insert(db, table, fresh)
            case _:
                changed = []
                db.execute(f"DELETE FROM {table} WHERE {where}", values)
        for condition, of, new in changed:
            update(db, table, condition, of, new)
        assume([dict(row) for row in db.execute(f"SELECT * FROM {table}")] != before)
        db.commit()
    code, (verdict,) = verdicts(invoke)
    assert code == 1, verdict
    if table == "runs" and verdict["verdict"] == "unreadable":  # a number that only a later version may know
        assert "tags have the unknown format" in verdict["detail"]
        return
    assert verdict["verdict"] in ("changed", "open")
    if verdict["verdict"] == "open":
        assert (table, database) == ("seals", "grades.db")


def insert(db: sqlite3.Connection, table: str, row: dict[str, Any]) -> None:
    try:
        db.execute(f"INSERT INTO {table} VALUES ({', '.join('?' for _ in row)})", list(row.values()))
    except sqlite3.IntegrityError:
        assume(False)


def update(db: sqlite3.Connection, table: str, where: str, values: list[Any], new: dict[str, Any]) -> None:
    assignments = ", ".join(f'"{name}" = ?' for name in new)
    try:
        db.execute(f"UPDATE {table} SET {assignments} WHERE {where}", [*new.values(), *values])
    except sqlite3.IntegrityError:
        assume(False)


def test_text_that_is_not_utf_8_is_found(run: Path, invoke: Invoke) -> None:
    sql(run, "UPDATE calls SET tool = CAST(x'ff' AS TEXT) WHERE id = 1")
    assert changes(invoke) == {("calls", "1", "edited")}


def test_an_older_state_of_a_row_is_found(run: Path, invoke: Invoke) -> None:
    """The tag of a row from before its episode ended is genuine, but outdated."""
    with RunFolder.create(run_info()) as folder:
        episode = begin(folder, folder.info.plan[0])
        folder.recording.store_frame(episode, 1, "client", request(1, "transfer", {}))
        ((_, *older),) = sql(folder.path, "SELECT id, outcome, ended_us, response_frame, tag FROM calls")
        folder.recording.store_frame(episode, 1, "server", response(1, "done"))
        folder.recording.mark_died(())
    remove_run(run)
    assert changes(invoke) == set()
    sql(folder.path, "UPDATE calls SET outcome = ?, ended_us = ?, response_frame = ?, tag = ?", *older)
    assert changes(invoke) == {("calls", "1", "edited")}


def test_a_row_of_another_run_is_found(run: Path, invoke: Invoke) -> None:
    other, _ = record([(planned("a"), TWO_CALLS)])
    (theirs,) = sql(other.path, "SELECT * FROM calls WHERE id = 1")
    sql(run, "DELETE FROM calls WHERE id = 1")
    sql(run, f"INSERT INTO calls VALUES ({', '.join('?' for _ in theirs)})", *theirs)
    remove_run(other.path)
    assert ("calls", "1", "edited") in changes(invoke)


def test_a_run_without_grades_is_found(run: Path, invoke: Invoke) -> None:
    (run / "grades.db").unlink()
    assert changes(invoke) == {("grades", "(all)", "removed")}


def test_a_large_frame_is_checked_to_its_last_byte(bench_home: Path, invoke: Invoke) -> None:
    with RunFolder.create(run_info()) as folder:
        episode = begin(folder, folder.info.plan[0])
        body = GrowingBody()
        body.add(b"x" * (9 << 20))
        folder.recording.store_frame(episode, 1, "server", body.take())
        folder.recording.mark_died(())
    assert changes(invoke) == set()
    with (
        closing(sqlite3.connect(folder.path / "recordings.db")) as db,
        db,
        db.blobopen("frames", "body", 1) as blob,
    ):
        blob.seek(-1, 2)
        blob.write(b"y")
    assert changes(invoke) == {("frames", "1", "edited")}


def test_a_killed_writer_leaves_an_open_end(
    run: Path, invoke: Invoke, tmp_path: Path, bench_home: Path
) -> None:
    with resume_run(run.name) as folder:
        assert verdicts(invoke)[0] == 0  # while the writer is running
        episode = begin(folder, folder.info.plan[2], attempt=2)
        folder.recording.store_frame(episode, 1, "client", request(1, "transfer", {}))
        killed = Path(shutil.copytree(bench_home, tmp_path / "killed"))
    shutil.rmtree(bench_home)
    shutil.copytree(killed, bench_home)
    code, (verdict,) = verdicts(invoke)
    assert (code, verdict["verdict"], verdict["findings"]) == (1, "open", [])
    resume_run(run.name).close()
    assert verdicts(invoke)[0] == 0


def test_forged_journal_entries_are_ignored(run: Path, invoke: Invoke) -> None:
    from mcp_bench.recorder.store.journal import encode_frame

    (episode,) = sql(run, "SELECT max(id) FROM episodes")[0]
    body = request(9, "transfer", {})
    hashed = sha256(body).digest()
    (run / "journal-0").write_bytes(encode_frame(b"not the key", 11, episode, 1, "client", 5, body, hashed))
    assert changes(invoke) == set()
    assert sql(run, "SELECT count(*) FROM frames") == [(10,)]


def test_findings_are_sanitized_for_the_terminal(run: Path, invoke: Invoke) -> None:
    sql(
        run, "UPDATE model_calls SET id = ? WHERE id = (SELECT max(id) FROM model_calls)", "\x1b[2Jgone\u202e"
    )
    assert r"\x1b[2Jgone\u202e" in invoke(verify).stdout


def test_a_referee_that_died_between_scan_and_grade_is_no_change(invoke: Invoke) -> None:
    """The episode is sealed again as invalid when the run is resumed; the scan was of its first seal."""
    with RunFolder.create(run_info(planned("t"))) as folder:
        episode = play(folder, folder.info.plan[0], Episode(partial=None))
        folder.grades.put_scan(episode, Scan("clean"), now_us())
    for _ in range(2):
        resume_run(folder.id).close()
        assert changes(invoke) == set()
