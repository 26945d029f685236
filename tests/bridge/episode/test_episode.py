"""One episode through the command line, with agents that behave and agents that do not."""

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

pytestmark = pytest.mark.system

Write = Callable[[str], str]

GOOD = """
server = Server()
server.connect()
server.call("write", key="sky", value="cerulean-sentinel")
server.call("write", key="grass", value="viridian-sentinel")
print("all written")
"""


def record(bench, option: str, *more: str, task: str = "colours", code: int = 0):
    return bench.run(
        "record", "--agent", "script", "--benchmark", "notebook", "--task", task,
        "--agent-option", option, *more, code=code,
    )  # fmt: skip


def test_a_good_agent_gets_full_marks_and_every_call_is_stored(bench, script: Write) -> None:
    done = record(bench, script(GOOD), "--json")
    assert json.loads(done.stdout)["strict"] == 1.0
    (episode,) = bench.rows("select * from episodes")
    assert (episode["termination"], episode["invalid"], episode["answer"]) == (
        "agent_exit",
        None,
        "all written",
    )
    calls = bench.rows("select tool, arguments, outcome, execution from calls order by id")
    assert [(call["tool"], call["outcome"], call["execution"]) for call in calls] == [
        ("write", "ok", 1),
        ("write", "ok", 2),
    ]
    assert json.loads(calls[0]["arguments"]) == {"key": "sky", "value": "cerulean-sentinel"}
    (grade,) = bench.grades()
    assert (grade["episode"], grade["partial"], grade["strict"]) == (episode["id"], 1.0, 1)


def test_half_the_work_is_half_the_credit(bench, script: Write) -> None:
    record(bench, script(GOOD.replace('server.call("write", key="grass", value="viridian-sentinel")', "")))
    (row,) = bench.report()
    assert (row["partial"], row["strict"], row["episodes"], row["invalid"]) == (0.5, 0.0, 1, 0)


def test_an_agent_that_never_connects_is_invalid_not_failed(bench, script: Write) -> None:
    done = record(bench, script("print('I know the answer already')"), code=1)
    assert "invalid: never_connected" in done.stderr
    (episode,) = bench.rows("select invalid, answer from episodes")
    assert episode == {"invalid": "never_connected", "answer": "I know the answer already"}
    assert bench.grades() == []


def test_an_agent_that_crashes_keeps_its_grade(bench, script: Write) -> None:
    record(bench, script(GOOD + "os.kill(os.getpid(), 11)"))
    (episode,) = bench.rows("select termination, exit_code, invalid from episodes")
    assert episode == {"termination": "crash", "exit_code": -signal.SIGSEGV, "invalid": None}
    assert bench.grades()[0]["strict"] == 1


def test_an_agent_that_never_ends_is_stopped_and_graded(bench, script: Write) -> None:
    record(bench, script(GOOD + "import time; time.sleep(600)"), "--timeout", "8")
    (episode,) = bench.rows("select termination, invalid from episodes")
    assert episode == {"termination": "timeout", "invalid": None}
    assert bench.grades()[0]["partial"] == 1.0


def test_the_call_limit_of_a_task_ends_the_episode(bench, script: Write) -> None:
    greedy = "server = Server(); server.connect()\nwhile server.call('write', key='one', value='uno-sentinel'): pass"
    record(bench, script(greedy), task="numbers")
    (episode,) = bench.rows("select termination from episodes")
    assert episode["termination"] == "max_calls"
    outcomes = [row["outcome"] for row in bench.rows("select outcome from calls order by id")]
    assert outcomes[:3] == ["ok"] * 3
    assert "ok" not in outcomes[3:]
    assert bench.grades()[0]["partial"] == 0.5


def test_a_fault_of_the_model_endpoint_is_invalid(bench, script: Write) -> None:
    record(bench, script(GOOD), "--agent-option", "fault=503 from the endpoint", code=1)
    (episode,) = bench.rows("select invalid, invalid_detail from episodes")
    assert episode == {"invalid": "endpoint_error", "invalid_detail": "503 from the endpoint"}


def test_a_plugin_bug_invalidates_the_episode_only(bench) -> None:
    done = bench.run("record", "--agent", "script", "--benchmark", "notebook", code=1)  # needs its option
    assert "invalid: plugin_failed" in done.stderr
    assert "Traceback" not in done.stderr
    assert [row["invalid"] for row in bench.rows("select invalid from episodes")] == ["plugin_failed"] * 2


def test_a_daemon_cannot_change_the_world_after_the_agent(bench, script: Write) -> None:
    """It keeps the wire open in its own session, and must be gone before grading."""
    daemon = """
server = Server()
server.connect()
if os.fork() == 0:
    os.setsid()
    while True:
        server.call("write", key="sky", value="spoilt")
os._exit(0)
"""
    record(bench, script(daemon))
    (_episode,) = bench.rows("select * from episodes")
    (grade,) = bench.grades()
    late = bench.rows("select count(*) as n from frames where stored_us > ?", grade["graded_us"])
    assert late == [{"n": 0}]
    assert not descendants_mention(bench.home.parent / "agent.py")


def descendants_mention(path: Path) -> bool:
    """Return whether a process on this machine still runs the file."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                if str(path).encode() in (entry / "cmdline").read_bytes():
                    return True
            except OSError:
                continue
    return False


def test_running_calls_finish_after_the_agent_exits(bench, script: Write, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    hasty = f"""
server = Server()
server.connect()
line = {{"jsonrpc": "2.0", "id": 9, "method": "tools/call", "params": {{"name": "wait", "arguments": {{"path": {str(gate)!r}}}}}}}
server.send(json.dumps(line).encode())
server.ask("ping")                               # earlier messages have arrived
if os.fork() == 0:
    os.setsid()
    open({str(gate)!r}, "w").write("opened")     # returns once the call reads: the agent has exited by then
os._exit(0)
"""
    record(bench, script(hasty))
    (call,) = bench.rows("select outcome from calls")
    assert call["outcome"] == "ok"


@pytest.mark.parametrize("size", [10_000_000])
def test_large_results_are_stored_in_full(bench, script: Write, size: int) -> None:
    reads = f"""
server = Server()
server.connect()
answer = server.call("pages", size={size})
print(len(answer["result"]["content"][0]["text"]))
"""
    record(bench, script(reads))
    assert bench.rows("select answer from episodes") == [{"answer": str(size)}]
    (frame,) = bench.rows(
        "select length(body) as n from frames where kind = 'response' order by n desc limit 1"
    )
    assert frame["n"] > size


def test_malformed_frames_are_stored_and_do_no_harm(bench, script: Write) -> None:
    odd = r"""
server = Server()
server.connect()
for line in (b"", b"not json", b"[]", b'{"id":1.0}', b'\xff\xfe\x00', b'{"jsonrpc":"2.0","id":"x","method":"nope"}\r'):
    server.send(line)
""" + GOOD.split("\n", 3)[3]
    odd = odd.replace("server.call(", "later(server, ")
    helper = """
def later(server, tool, **arguments):
    server.last += 1
    params = {"name": tool, "arguments": arguments}
    server.send(json.dumps({"jsonrpc": "2.0", "id": server.last, "method": "tools/call", "params": params}).encode())
    while json.loads(server.receive()).get("id") != server.last:
        pass
"""
    record(bench, script(helper + odd))
    assert bench.grades()[0]["strict"] == 1
    kinds = [
        row["kind"] for row in bench.rows("select kind from frames where direction = 'client' order by id")
    ]
    assert kinds.count("invalid") >= 3
    bodies = [row["body"] for row in bench.rows("select body from frames where direction = 'client'")]
    assert b"\xff\xfe\x00\n" in bodies
