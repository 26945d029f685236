"""Admission to an episode's wire: only the launched agent with its token."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

pytestmark = pytest.mark.system

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


def test_an_agent_may_reconnect_until_its_first_call(bench, script: Write) -> None:
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


def test_restarting_the_server_before_a_call_leaves_no_flag(bench, script: Write) -> None:
    """Even a server that is killed at once leaves none, whether or not it has connected."""
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


def test_the_token_of_a_past_episode_is_refused(bench, script: Write, tmp_path: Path) -> None:
    """The flag belongs to the agent that shows the token, not to the one that owned it."""
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
    assert f"the token of {first['id']}, which has ended" in flag["detail"]


def test_a_process_outside_the_agents_tree_is_refused(bench, script: Write, tmp_path: Path) -> None:
    """The token is not enough: this test shows it while the agent waits."""
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


def test_the_shim_reports_why_it_cannot_connect(tmp_path: Path) -> None:
    from mcp_bench.bridge.wire import shim

    copy = tmp_path / "shim.py"
    copy.write_bytes(Path(shim.__file__).read_bytes())
    (tmp_path / "token").write_text("t")
    done = subprocess.run([sys.executable, "-I", "-S", str(copy)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert "this episode's server cannot be reached" in done.stderr


def test_the_shim_ends_with_its_episode_despite_open_stdin(tmp_path: Path) -> None:
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
