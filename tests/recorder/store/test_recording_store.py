"""The store as plain sqlite3 shows it."""

import json
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mcp_bench.recorder.errors import DiskFullError, StorageError
from mcp_bench.recorder.frames.body import body_bytes
from mcp_bench.recorder.records import Direction, EpisodeEnd, new_id, now_us
from mcp_bench.recorder.runs.parts import resume_run
from mcp_bench.recorder.runs.run_folder import RunFolder
from mcp_bench.recorder.trajectory import Message
from mcp_bench.servers.contracts import AssertionResult, Grade
from tests.support import ROOT
from tests.support.recorded import begin, large, line, planned, request, response

pytestmark = pytest.mark.component

SHARED = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60)


def rows(folder: RunFolder, sql: str, *values: Any) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(f"file:{folder.path}/recordings.db?mode=ro", uri=True)) as connection:
        return connection.execute(sql, values).fetchall()


def outcomes(folder: RunFolder) -> list[Any]:
    return [outcome for (outcome,) in rows(folder, "SELECT outcome FROM calls ORDER BY id")]


@SHARED
@given(st.binary() | st.text().map(str.encode) | st.just(b'{"a":"\xf0\x9f\x98\x80\\u0000"}\r\n'))
def test_every_frame_comes_back_byte_for_byte(folder: RunFolder, episode: str, body: bytes) -> None:
    folder.recording.store_frame(episode, 1, "client", body)
    (stored, kind) = rows(folder, "SELECT body, typeof(body) FROM frames ORDER BY id DESC LIMIT 1")[0]
    assert body_bytes(stored) == body
    if body.isascii():  # many tools cut text at the first NUL
        assert kind == ("blob" if b"\0" in body else "text")


@SHARED
@given(
    st.recursive(
        st.floats() | st.text(st.characters()) | st.none(),
        lambda v: st.lists(v) | st.dictionaries(st.text(st.characters()), v),
    )
)
def test_a_call_with_any_arguments_is_stored(folder: RunFolder, episode: str, arguments: Any) -> None:
    body = request(1, "t\ud800", arguments)
    folder.recording.store_frame(episode, 1, "client", body)
    (stored,) = rows(folder, "SELECT arguments FROM calls ORDER BY id DESC LIMIT 1")[0]
    json.loads(stored, parse_constant=pytest.fail)
    folder.recording.recorded_calls(episode)
    folder.recording.close_connection(episode, 1)


@pytest.mark.parametrize("depth", [100, 300, *range(970, 1000)])
def test_deep_nesting_breaks_nothing(folder: RunFolder, episode: str, depth: int) -> None:
    nested = b"[" * depth + b"]" * depth
    call = b'{"id":1,"method":"tools/call","params":{"name":"t","arguments":{"x":' + nested + b"}}}"
    frame = folder.recording.store_frame(episode, 1, "client", call)
    folder.recording.store_frame(episode, 1, "server", b'{"id":1,"result":{"content":[' + nested + b"]}}")
    calls = folder.recording.recorded_calls(episode)
    assert len(calls) == frame.is_call
    assert frame.is_call or depth > 300


def test_ten_megabytes_in_one_frame(folder: RunFolder, episode: str) -> None:
    text = "x" * 10_000_000
    folder.recording.store_frame(episode, 1, "client", request(1, "big", {}))
    folder.recording.store_frame(episode, 1, "server", response(1, text))
    assert rows(folder, "SELECT length(body) FROM frames ORDER BY id DESC LIMIT 1")[0][0] > len(text)
    assert folder.recording.recorded_calls(episode)[0].text == text


def test_each_outcome_is_distinguished(folder: RunFolder, episode: str) -> None:
    store = folder.recording.store_frame
    for rpc_id in range(1, 7):
        store(episode, 1, "client", request(rpc_id, "tool", {"n": rpc_id}))
    assert outcomes(folder) == [None] * 6
    store(episode, 1, "server", response(1, "fine"))
    store(episode, 1, "server", response(2, "refused", is_error=True))
    store(episode, 1, "server", line({"id": 3, "error": {"code": -32603, "message": "broke"}}))
    for cancelled in (4, 5):
        cancel = {"method": "notifications/cancelled", "params": {"requestId": cancelled}}
        store(episode, 1, "client", line(cancel))
    store(episode, 1, "server", line({"id": 4, "error": {"code": 0, "message": "Request cancelled"}}))
    folder.recording.close_connection(episode, 1)
    assert outcomes(folder) == ["ok", "tool_error", "rpc_error", "cancelled", "cancelled", "transport_error"]
    texts = [call.text for call in folder.recording.recorded_calls(episode)]
    assert texts[:4] == ["fine", "refused", "broke", "Request cancelled"]


def test_the_result_is_stored_once_and_a_view_joins_it(folder: RunFolder, episode: str) -> None:
    folder.recording.store_frame(episode, 1, "client", request("a", "read", {"é": 1}))
    folder.recording.mark_executed(episode, 1, "a")
    folder.recording.store_frame(episode, 1, "server", response("a", "RESULT-ONCE"))
    ((execution, tool, arguments, outcome, result),) = rows(
        folder, "SELECT execution, tool, arguments, outcome, result FROM call_results"
    )
    assert (execution, tool, arguments, outcome) == (1, "read", '{"é":1}', "ok")
    assert json.loads(result)["content"][0]["text"] == "RESULT-ONCE"
    assert rows(folder, "SELECT count(*) FROM calls WHERE tool || arguments LIKE '%RESULT-ONCE%'") == [(0,)]


def test_ids_differ_by_connection_direction_and_spelling(folder: RunFolder, episode: str) -> None:
    store = folder.recording.store_frame
    store(episode, 1, "client", b'{"id":1,"method":"tools/call","params":{"name":"int"}}')
    store(episode, 1, "client", b'{"id":1.0,"method":"tools/call","params":{"name":"float"}}')
    store(episode, 1, "client", b'{"id":"1","method":"tools/call","params":{"name":"text"}}')
    store(episode, 2, "client", b'{"id":1,"method":"tools/call","params":{"name":"other"}}')
    store(episode, 1, "client", response(1, "an answer to the server's own request"))
    store(episode, 1, "server", b'{"id":1.0,"result":{"isError":true}}')
    assert rows(folder, "SELECT tool FROM calls WHERE outcome = 'tool_error'") == [("float",)]
    assert outcomes(folder) == [None, "tool_error", None, None]


@pytest.mark.parametrize(
    ("asked", "answered", "expected"),
    [
        ("7.0", "7", "ok"),
        ("7", "7.0", "ok"),
        ("7e0", "7", "ok"),
        ("7", '"7"', "ok"),
        ('"7"', "7", "ok"),
        ("7.0", "8", None),
        ("7", '"seven"', None),
    ],
)
def test_a_server_may_spell_a_number_differently(
    folder: RunFolder, episode: str, asked: str, answered: str, expected: str | None
) -> None:
    def store(direction: Direction, text: str) -> None:
        folder.recording.store_frame(episode, 1, direction, text.encode())

    tool = '{"name": "look", "inputSchema": {}}'
    store("client", f'{{"id": {asked}, "method": "tools/list"}}')
    store("server", f'{{"id": {answered}, "result": {{"tools": [{tool}]}}}}')
    store("client", f'{{"id": {asked}, "method": "tools/call", "params": {{"name": "look"}}}}')
    store("server", f'{{"id": {answered}, "result": {{"content": [{{"type": "text", "text": "A."}}]}}}}')
    assert outcomes(folder) == [expected]
    (call,) = folder.recording.recorded_calls(episode)
    listed = [tool.function.name for tool in folder.recording.listed_tools(episode)]
    assert (call.text, listed) == (("A.", ["look"]) if expected else ("", []))


@pytest.mark.parametrize("cancelled", ["7", '"7"', "7.0"])
def test_a_client_may_spell_a_number_differently_where_it_cancels(
    folder: RunFolder, episode: str, cancelled: str
) -> None:
    store = folder.recording.store_frame
    store(episode, 1, "client", request(7, "slow", {}))
    cancel = f'{{"method": "notifications/cancelled", "params": {{"requestId": {cancelled}}}}}'
    store(episode, 1, "client", cancel.encode())
    folder.recording.close_connection(episode, 1)
    assert outcomes(folder) == ["cancelled"]


@pytest.mark.parametrize("asked", ["7", "7.0"])
def test_what_another_request_gets_is_no_result_of_a_call(
    folder: RunFolder, episode: str, asked: str
) -> None:
    store = folder.recording.store_frame
    store(episode, 1, "client", request("7", "slow", {}))
    store(episode, 1, "client", f'{{"id": {asked}, "method": "ping"}}'.encode())
    store(episode, 1, "server", f'{{"id": {asked}, "result": {{}}}}'.encode())
    assert outcomes(folder) == [None]
    store(episode, 1, "server", response("7", "done"))
    (call,) = folder.recording.recorded_calls(episode)
    assert (call.outcome, call.text) == ("ok", "done")


def test_calls_come_in_the_order_they_ran(folder: RunFolder, episode: str) -> None:
    for rpc_id, name in enumerate("abcd", start=1):
        folder.recording.store_frame(episode, 1, "client", request(rpc_id, name, {}))
    folder.recording.store_frame(episode, 1, "server", response(3, "bad arguments", is_error=True))
    for rpc_id in (4, 1, 2):
        folder.recording.mark_executed(episode, 1, rpc_id)
    folder.recording.close_connection(episode, 1)
    calls = folder.recording.recorded_calls(episode)
    assert [(call.tool, call.execution) for call in calls] == [("d", 1), ("a", 2), ("c", None), ("b", 3)]


def test_a_batch_opens_and_settles_its_calls(folder: RunFolder, episode: str) -> None:
    calls = [json.loads(request(n, f"t{n}", {})) for n in (1, 2)]
    folder.recording.store_frame(episode, 1, "client", line(calls))
    answers = [json.loads(response(n, f"r{n}")) for n in (2, 1)]
    folder.recording.store_frame(episode, 1, "server", line(answers))
    assert [(c.tool, c.text) for c in folder.recording.recorded_calls(episode)] == [
        ("t1", "r1"),
        ("t2", "r2"),
    ]


def test_an_episode_ends_once_and_settles_open_calls(folder: RunFolder, episode: str) -> None:
    folder.recording.store_frame(episode, 1, "client", request(1, "slow", {}))
    end = EpisodeEnd(termination="timeout", ended_us=now_us())
    folder.recording.end_episode(episode, end, [])
    assert outcomes(folder) == ["transport_error"]
    with pytest.raises(StorageError, match=episode):
        folder.recording.end_episode(episode, end, [])


@pytest.mark.parametrize("is_large", [False, True])
def test_unparsed_frames_are_returned_after_a_commit(folder: RunFolder, episode: str, is_large: bool) -> None:
    body = request(1, "tool", {})
    folder.recording.append_unparsed(episode, 1, "client", [large(body) if is_large else body])
    folder.recording.flush()  # as the committing thread does
    folder.recording.append_unparsed(episode, 1, "server", [response(1, "done")])
    parsed = folder.recording.parse_pending()
    assert [(direction, frame.kind) for direction, _, frame in parsed] == [
        ("client", "request"),
        ("server", "response"),
    ]
    assert folder.recording.parse_pending() == []


def test_a_full_disk_is_reported_and_loses_nothing(folder: RunFolder, episode: str) -> None:
    store = folder.recording.store_frame
    store(episode, 1, "client", request(1, "before", {}))
    with folder.recording.writer.lock:  # prevents a commit meanwhile
        pages = folder.recording.writer.connection.execute("PRAGMA page_count").fetchone()[0]
        folder.recording.writer.connection.execute(f"PRAGMA max_page_count = {pages + 2}")
        with pytest.raises(DiskFullError, match=r"recordings\.db") as raised:
            store(episode, 1, "client", request(2, "late", {"text": "x" * 100_000}))
        folder.recording.writer.connection.execute("PRAGMA max_page_count = 100000")
    assert "free" in str(raised.value)
    store(episode, 1, "server", response(1, "answer"))
    assert rows(folder, "SELECT tool, outcome FROM calls") == [("before", "ok"), ("late", None)]
    assert rows(folder, "SELECT count(*) FROM frames") == [(3,)]
    assert rows(folder, "PRAGMA integrity_check") == [("ok",)]


WRITER = """
import sys
sys.path.insert(0, sys.argv[1])
from tests.support.recorded import begin, request, run_info
from mcp_bench.recorder.runs.run_folder import RunFolder
folder = RunFolder.create(run_info(id="run_killed"))
episode = begin(folder, folder.info.plan[0])
for number in range(10**6):
    folder.recording.store_frame(episode, 1, "client", request(number, "tool", {"n": number}))
    print(number, flush=True)
"""


def test_kill_9_keeps_every_stored_frame(bench_home: Path) -> None:
    support = ROOT
    writer = subprocess.Popen([sys.executable, "-c", WRITER, support], stdout=subprocess.PIPE, text=True)
    assert writer.stdout is not None
    for _ in range(200):
        writer.stdout.readline()
    writer.send_signal(signal.SIGKILL)
    printed = 200 + len(
        [number for number in writer.stdout.read().splitlines(keepends=True) if "\n" in number]
    )
    writer.wait()
    writer.stdout.close()
    path = bench_home / "runs" / "run_killed" / "recordings.db"
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT count(*) FROM frames").fetchone()[0] >= printed
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    with resume_run("run_killed") as folder:
        assert rows(folder, "SELECT invalid, ended_us FROM episodes") == [("referee_died", None)]
        assert rows(folder, "SELECT DISTINCT outcome FROM calls") == [("transport_error",)]
        assert [attempt for _, attempt in folder.pending()] == [2]


def test_ids_are_unique_and_sort_by_time() -> None:
    ids = [new_id("ep") for _ in range(5000)]
    assert ids == sorted(set(ids))
    assert len(ids[0]) == len("ep_") + 15


def test_nothing_of_a_grade_is_in_the_recording(folder: RunFolder, episode: str) -> None:
    assertions = (AssertionResult(name="SENTINEL-A", passed=False, kind="objective", detail=""),)
    grade = Grade(
        partial=0.5,
        strict=False,
        assertions=assertions,
        metrics={"SENTINEL-M": 1.0},
        grader_version="SENTINEL-V",
    )
    folder.grades.put(episode, grade, {"s": "SENTINEL-S"}, graded_us=1)
    path = folder.path
    folder.close()
    sealed = (path / "grades.db").read_bytes()
    assert all(b"SENTINEL-" + letter in sealed for letter in (b"A", b"M", b"V", b"S"))
    for file in path.rglob("*"):
        if file.is_file() and file.name != "grades.db":
            assert b"SENTINEL" not in file.read_bytes(), file
    assert (path / "grades.db").stat().st_mode & 0o777 == 0o600
    assert path.stat().st_mode & 0o777 == 0o700


def test_a_second_grade_is_refused_and_the_first_stays(folder: RunFolder, episode: str) -> None:
    def put(partial: float) -> None:
        grade = Grade(partial=partial, strict=partial == 1, grader_version="1")
        folder.grades.put(episode, grade, None, graded_us=1)

    assert episode not in folder.grades.graded()
    put(0.5)
    with pytest.raises(StorageError, match=episode):
        put(1.0)
    assert episode in folder.grades.graded()
    with closing(sqlite3.connect(folder.path / "grades.db")) as connection:
        assert connection.execute("SELECT partial FROM grades").fetchall() == [(0.5,)]


def test_two_episodes_at_once_do_not_mix(folder: RunFolder) -> None:
    slot = planned(repeat=1)
    first, second = begin(folder, folder.info.plan[0]), begin(folder, slot)
    for episode in (first, second):
        folder.recording.store_frame(episode, 1, "client", request(1, episode, {}))
    folder.recording.store_frame(second, 1, "server", response(1, "second"))
    folder.recording.mark_executed(first, 1, 1)
    assert [c.outcome for c in folder.recording.recorded_calls(first)] == [None]
    assert [c.text for c in folder.recording.recorded_calls(second)] == ["second"]


def test_the_end_of_an_episode_reads_no_other_episode(folder: RunFolder) -> None:
    """Frames have no index by episode, and a proxy's run can have thousands of sessions."""
    steps: list[int] = []
    for number in range(40):
        episode = begin(folder, planned(repeat=number + 1), tools=[])
        folder.recording.store_frame(
            episode, 1, "client", line({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})
        )
        listed = {"tools": [{"name": f"t{number}"}]}
        folder.recording.store_frame(
            episode, 1, "server", line({"jsonrpc": "2.0", "id": 1, "result": listed})
        )
        for call in range(2, 12):
            folder.recording.store_frame(episode, 1, "client", request(call, "t", {}))
        steps.append(0)

        def count() -> None:
            steps[-1] += 1

        folder.recording.writer.connection.set_progress_handler(count, 10)
        folder.recording.end_episode(episode, EpisodeEnd(ended_us=now_us()), [])
        folder.recording.writer.connection.set_progress_handler(None, 0)
        (tools,) = rows(folder, "SELECT tools FROM episodes WHERE id = ?", episode)[0]
        assert json.loads(tools)[0]["function"]["name"] == f"t{number}"
    assert max(steps) < 1.5 * steps[0], steps


@pytest.mark.parametrize("field", ["content", "reasoning", "answer", "invalid_detail"])
def test_a_lone_surrogate_ends_no_run(folder: RunFolder, episode: str, field: str) -> None:
    odd = {field: "a\ud800b"}
    message = Message(
        role="assistant", **{"content": "x", **odd} if field in ("content", "reasoning") else {}
    )
    own = odd if field in ("answer", "invalid_detail") else {}
    end = EpisodeEnd(termination="agent_exit", connections=1, ended_us=now_us(), **own)
    folder.recording.end_episode(episode, end, [message])
    table = "messages" if field in ("content", "reasoning") else "episodes"
    assert rows(folder, f"SELECT {field} FROM {table}") == [("a?b",)]
