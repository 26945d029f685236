"""Worlds that ask models: recorded on the sealed side, limited, replayed, and never the agent's failure."""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.support.model_endpoint.endpoint import ModelEndpoint
from tests.support.model_endpoint.fault import Fault
from tests.support.model_endpoint.script import HARMLESS, Script, ScriptedCall, Step

pytestmark = pytest.mark.system

KEY = "sk-of-the-role-1234"
SOLUTION = b"SECRET-SOLUTION-4711"
SCRIPTS = [
    Script("They offer", (Step((ScriptedCall("offer", {"price": 9}),)),)),
    Script("Is it", (Step((ScriptedCall("verdict", {"passed": True}),)),)),
]
WORK = """
server = Server()
server.connect()
print(server.call("offer", price=5))
if "user" in CONFIG["prompt"]:
    print(server.call("reply_to_user", message="Is 5 fine?"))
"""


@pytest.fixture
def endpoint() -> Iterator[ModelEndpoint]:
    with ModelEndpoint(SCRIPTS, api_key=KEY) as found:
        yield found


def play(bench, endpoint, agent: str, *more: str, benchmark: str = "haggle", code: int | None = 0):
    bench.environ |= {f"MCP_BENCH_{role}_API_KEY": KEY for role in ("USER", "JUDGE", "OPPONENT")}
    roles = [
        word
        for role in ("user", "judge", "opponent")
        for word in (f"--{role}-model", f"{role}-1", f"--{role}-base-url", endpoint.openai_url)
    ]
    return bench.run(
        "record", "--agent", "script", "--agent-option", agent, "--benchmark", benchmark, *roles, *more, code=code
    )  # fmt: skip


@pytest.mark.parametrize("benchmark", ["haggle", "haggle-remote"])
def test_worlds_ask_and_regrade_replays(bench, endpoint, script, benchmark: str) -> None:
    done = play(bench, endpoint, script(WORK), benchmark=benchmark)
    assert "Warning" not in done.stderr
    asked = bench.rows("select * from asked order by role", database="grades.db")
    assert [(row["role"], row["model"], row["seed"], row["error"]) for row in asked] == [
        ("judge", "judge-1", 0, None),
        ("opponent", "opponent-1", 0, None),
        ("user", "user-1", 0, None),
    ]
    assert json.loads(asked[2]["answer"])["content"] == HARMLESS
    assert json.loads(asked[0]["usage"])["input_tokens"] > 100
    certain = bench.rows("select certain from scores", database="grades.db")
    assert [row["certain"] for row in certain] == [0, 0, 0]
    assert [row["strict"] for row in bench.grades()] == [1, 1, 1, 1]
    asked_before = len(endpoint.requests)
    regraded = bench.run("regrade", "--json")
    assert [one["status"] for one in json.loads(regraded.stdout)] == ["same"] * 4
    assert len(endpoint.requests) == asked_before
    assert "verified" in bench.run("verify").stdout


def test_the_agent_and_the_open_recording_get_no_secret(bench, endpoint, script) -> None:
    play(bench, endpoint, script(WORK + "print(dict(os.environ))\n"), "--task", "judge", "--task", "opponent")
    open_side = [path for path in bench.run_folder.rglob("*") if path.is_file() and "grades" not in path.name]
    assert open_side
    for path in open_side:
        assert SOLUTION not in path.read_bytes(), path
    for path in bench.home.rglob("*"):
        assert not path.is_file() or KEY.encode() not in path.read_bytes(), path


@pytest.mark.parametrize(
    ("fault", "more", "reason", "words"),
    [
        (Fault(status=400, message="bad request"), [], "role_failed", "answered 400"),
        (Fault(status=400, message="maximum context length"), [], "role_limit", "answered 400"),
        (Fault(text="{}"), [], "role_failed", "no chat completion"),
        (Fault(text='{"choices": [{"message": null}]}'), [], "role_failed", "an unexpected form"),
        (None, ["--role-limit", "requests=1"], "role_limit", "1 requests are the limit"),
        (None, ["--role-limit", "tokens=1"], "role_limit", "1 tokens are the limit"),
    ],
    ids=["refused", "overflow", "garbled", "no message", "requests", "tokens"],
)
def test_a_model_that_fails_makes_the_episode_invalid(
    bench, endpoint, script, fault: Fault | None, more: list[str], reason: str, words: str
) -> None:
    endpoint.fault = fault
    work = script(
        """
server = Server()
server.connect()
for _ in range(2):
    print(server.call("offer", price=5))
"""
    )
    play(bench, endpoint, work, "--task", "opponent", *more, code=1)
    (episode,) = bench.rows("select invalid, invalid_detail from episodes")
    assert episode["invalid"] == reason
    assert "the model 'opponent-1' at http://127.0.0.1" in episode["invalid_detail"]
    assert words in episode["invalid_detail"]
    frames = [str(row["body"]) for row in bench.rows("select body from frames where direction = 'server'")]
    assert any("the opponent does not answer any more" in body for body in frames)
    assert not any(words in body for body in frames)


def test_a_judge_that_fails_makes_the_episode_invalid(bench, endpoint, script) -> None:
    endpoint.fault = Fault(status=400, message="no judgement today")
    play(bench, endpoint, script(WORK), "--task", "judge", "--task", "alone", code=1)
    rows = bench.rows("select task, invalid from episodes order by task")
    assert rows == [{"task": "alone", "invalid": None}, {"task": "judge", "invalid": "role_failed"}]
    (failed,) = bench.rows("select answer, error from asked", database="grades.db")
    assert failed["answer"] is None and "no judgement today" in failed["error"]


def test_a_user_that_fails_ends_its_own_episode(bench, endpoint, script) -> None:
    """The agent reads that nobody answers, the next task is played, and the operator reads why."""
    endpoint.fault = Fault(status=400, message="no customer today")
    done = play(bench, endpoint, script(WORK), "--task", "user", "--task", "alone", code=1)
    rows = bench.rows("select task, invalid from episodes order by id")
    assert rows == [{"task": "user", "invalid": "role_failed"}, {"task": "alone", "invalid": None}]
    assert "it answered 400: no customer today" in done.stderr and "Traceback" not in done.stderr
    assert "retry the invalid episodes with" in done.stderr
    frames = [str(row["body"]) for row in bench.rows("select body from frames where direction = 'server'")]
    assert any("the user does not answer any more" in body for body in frames)
    assert not any("no customer today" in body for body in frames)


def test_an_agent_that_talks_too_long_is_graded(bench, endpoint, script) -> None:
    chatters = script(WORK + WORK.replace("Server()", "server").replace("server.connect()", ""))
    play(
        bench,
        endpoint,
        chatters,
        "--task",
        "alone",
        "--task",
        "user",
        "--role-limit",
        "requests=1",
        code=None,
    )
    rows = bench.rows("select task, attempt, invalid, invalid_detail from episodes order by id")
    assert [(row["task"], row["attempt"], row["invalid"]) for row in rows] == [
        ("alone", 1, None),
        ("user", 1, "role_limit"),
        ("user", 2, None),
    ]
    assert len(bench.grades()) == 2


def test_a_task_that_needs_a_model_names_the_option(bench, script) -> None:
    refused = bench.run(
        "record", "--agent", "noop", "--benchmark", "haggle", "--task", "judge", "--task", "alone", code=2
    )
    assert "1 of the 2 tasks need a model that plays the judge (judge)" in refused.stderr
    assert "--judge-model NAME" in refused.stderr
    listed = bench.run("tasks", "haggle").stdout
    assert "needs a model that plays the user: name one with `record --user-model NAME`: user" in listed
    bench.run("record", "--agent", "oracle", "--benchmark", "haggle", "--task", "alone", code=None)


def test_a_model_that_an_agent_could_use_is_warned_of(bench, script) -> None:
    with ModelEndpoint(SCRIPTS) as keyless:
        done = play(bench, keyless, script(WORK), "--task", "alone")
    assert done.stderr.count("demands no key, so the agent can reach it") == 3
    assert KEY not in done.stderr


def test_an_endpoint_that_is_down_refuses_the_run(bench) -> None:
    refused = bench.run(
        "record", "--agent", "noop", "--benchmark", "haggle", "--task", "user", "--user-model", "m",
        "--user-base-url", "http://127.0.0.1:1/v1", code=1,
    )  # fmt: skip
    assert "http://127.0.0.1:1/v1 of --user-model cannot be reached" in refused.stderr


def test_a_run_resumes_merges_and_exports(bench, endpoint, script, tmp_path: Path) -> None:
    endpoint.fault = Fault(status=400, message="down", first=1, after=3)  # after the look at each endpoint
    play(bench, endpoint, script(WORK), "--task", "opponent", "--task", "alone", code=1)
    endpoint.fault = None
    bench.run("record", "--resume", bench.run_folder.name)
    assert len(bench.rows("select * from asked", database="grades.db")) == 2
    bench.run("verify")
    merged = tmp_path / "all.db"
    bench.run("merge", "--out", merged)
    with closing(sqlite3.connect(merged)) as db:
        assert db.execute("select role from asked").fetchall() == [("opponent",), ("opponent",)]
    out = tmp_path / "rows.jsonl"
    bench.run("export", "--benchmark", "haggle", "--split", "test", "--out", out)
    assert len(out.read_bytes().splitlines()) == 2
    assert SOLUTION not in out.read_bytes()


def test_an_answer_in_parts_is_read(bench, endpoint, script) -> None:
    """Mistral's reasoning models answer so."""
    parts = [{"type": "thinking", "thinking": []}, {"type": "text", "text": HARMLESS}]
    message = {"role": "assistant", "content": parts}
    answer = {"model": "user-1", "choices": [{"index": 0, "finish_reason": "stop", "message": message}]}
    endpoint.fault = Fault(text=json.dumps(answer))
    play(bench, endpoint, script(WORK), "--task", "user")
    (asked,) = bench.rows("select answer from asked where role = 'user'", database="grades.db")
    assert json.loads(asked["answer"])["content"] == HARMLESS
