"""Who gets onto an episode's wire: the launched agent with its token, and nobody else."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

Write = Callable[[str], str]

RAW = """
import socket
folder = os.path.dirname(CONFIG["command"][-1])
token = open(os.path.join(folder, "token"), "rb").read()

def raw(token):
    wire = socket.socket(socket.AF_UNIX)
    wire.settimeout(30)
    try:
        wire.connect(os.path.join(folder, "socket"))
        wire.sendall(token + b"\\n" + b'{"jsonrpc":"2.0","id":1,"method":"ping"}\\n')
        return wire.recv(1000)
    except OSError:
        return b""
"""


def record(bench, option: str, code: int = 0):
    return bench.run(
        "record", "--agent", "script", "--benchmark", "notebook", "--task", "colours", "--agent-option", option,
        code=code,
    )  # fmt: skip


def test_a_wrong_token_gets_no_answer(bench, script: Write) -> None:
    record(
        bench,
        script(RAW + "print([raw(t) for t in (b'', b'guess', token[:-1], b'x' * 1000)]); Server().connect()"),
    )
    assert bench.rows("select answer from episodes") == [{"answer": "[b'', b'', b'', b'']"}]
    flags = bench.rows(
        "select episode = (select id from episodes) as own, kind, detail from flags order by id"
    )
    assert [(flag["own"], flag["kind"]) for flag in flags] == [(1, "wrong_token")] * 4
    assert [flag["detail"].rpartition(" showed ")[2] for flag in flags] == [
        "no token", "an unknown token", "an unknown token", "an unknown token",
    ]  # fmt: skip


def test_an_agent_may_reconnect_until_its_first_call_and_not_after(bench, script: Write) -> None:
    restarts = """
first = Server(); first.connect()
second = Server(); second.connect()
second.call("write", key="sky", value="cerulean-sentinel")
third = Server()
print(third.connect())
"""
    record(bench, script(restarts))
    (episode,) = bench.rows("select answer, connections from episodes")
    assert episode == {"answer": "None", "connections": 2}
    assert bench.grades()[0]["partial"] == 0.5
    (flag,) = bench.rows("select episode = (select id from episodes) as own, kind, detail from flags")
    assert (flag["own"], flag["kind"]) == (1, "late_reconnect")
    assert "shim.py" in flag["detail"]


def test_who_restarts_its_server_before_it_works_leaves_no_flag(bench, script: Write) -> None:
    """Also where that is killed at once: it may have connected by then, or not."""
    kills = """
for seconds in (0, 0.02, 0.05, 0.1):
    started = subprocess.Popen(CONFIG["command"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    try:
        started.wait(seconds)
    except subprocess.TimeoutExpired:
        started.kill()
        started.wait()
server = Server(); server.connect()
print(server.call("write", key="sky", value="cerulean-sentinel") is not None)
"""
    record(bench, script(kills))
    assert bench.rows("select answer from episodes") == [{"answer": "True"}]
    assert bench.rows("select * from flags") == []


def test_the_token_of_an_episode_that_is_over_is_worth_nothing(bench, script: Write, tmp_path: Path) -> None:
    """It counts against the agent that shows it, and not against the one that had it."""
    kept = tmp_path / "kept"
    replays = (
        RAW
        + f"""
server = Server(); server.connect(); server.call("write", key="sky", value="x")
if os.path.exists({str(kept)!r}):
    print(raw(open({str(kept)!r}, "rb").read()))
open({str(kept)!r}, "wb").write(token)
"""
    )
    bench.run(
        "record", "--agent", "script", "--benchmark", "notebook", "--task", "colours", "--repeat", "2",
        "--agent-option", script(replays),
    )  # fmt: skip
    first, second = bench.rows("select id, answer from episodes order by id")
    assert second["answer"] == "b''"
    (flag,) = bench.rows("select episode, kind, detail from flags")
    assert (flag["episode"], flag["kind"]) == (second["id"], "replay")
    assert f"the token of {first['id']}, which is over" in flag["detail"]


def test_a_process_that_the_agent_did_not_start_is_refused(bench, script: Write, tmp_path: Path) -> None:
    """The token alone is not enough: this test itself presents it while the agent waits."""
    (tmp_path / "out").touch()
    waits = (
        RAW
        + f"""
server = Server(); server.connect()
os.mkfifo({str(tmp_path / "turn")!r})
open({str(tmp_path / "out")!r}, "w").write(json.dumps([folder, token.decode()]) + "\\n")
open({str(tmp_path / "turn")!r}).read()          # until the test has tried
print(raw(token) != b"")
"""
    )
    with bench.start(
        "record", "--agent", "script", "--benchmark", "notebook", "--task", "colours",
        "--agent-option", script(waits),
    ) as referee:  # fmt: skip
        while not (text := (tmp_path / "out").read_text()).endswith("\n"):
            assert referee.poll() is None
        folder, token = json.loads(text)
        with socket.socket(socket.AF_UNIX) as wire:
            wire.settimeout(30)
            wire.connect(f"{folder}/socket")
            wire.sendall(token.encode() + b'\n{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
            try:
                answer = wire.recv(1000)
            except ConnectionResetError:
                answer = b""
        (tmp_path / "turn").write_text("go")
        referee.communicate(timeout=60)
    assert answer == b""
    assert bench.rows("select answer from episodes") == [{"answer": "True"}]
    flags = bench.rows(
        "select episode = (select id from episodes) as own, kind, detail from flags order by id"
    )
    assert [(flag["own"], flag["kind"]) for flag in flags] == [(1, "foreign_peer")]
    assert f"process {os.getpid()} " in flags[0]["detail"]  # this one


def test_the_shim_says_why_it_cannot_reach_its_episode(tmp_path: Path) -> None:
    from mcp_bench.bridge.wire import shim

    copy = tmp_path / "shim.py"
    copy.write_bytes(Path(shim.__file__).read_bytes())
    (tmp_path / "token").write_text("t")
    done = subprocess.run([sys.executable, "-I", "-S", str(copy)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert "this episode's server cannot be reached" in done.stderr


def test_the_shim_ends_with_its_episode_though_its_stdin_is_held_open(tmp_path: Path) -> None:
    from mcp_bench.bridge.wire import shim

    copy = tmp_path / "shim.py"
    copy.write_bytes(Path(shim.__file__).read_bytes())
    (tmp_path / "token").write_text("t")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "socket"))
        listener.listen()
        pipe = subprocess.PIPE
        with subprocess.Popen([sys.executable, "-I", "-S", str(copy)], stdin=pipe, stdout=pipe) as process:
            peer, _ = listener.accept()
            assert peer.recv(100) == b"t\n"
            peer.close()
            assert process.wait(timeout=60) == 0
