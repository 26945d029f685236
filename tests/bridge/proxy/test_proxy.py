"""`mcp-bench proxy CMD` does not change a session, and records every frame of it."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import anyio
import httpx2
import pytest
from mcp import Client, StdioServerParameters

from tests.support import DESK_SERVER
from tests.support.http.http_peers import echo_server, sdk_server
from tests.support.processes.forked import script_command
from tests.support.processes.one_socket import on_one_socket

pytestmark = pytest.mark.system

HELLO = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "raw", "version": "7"}}
INITIALIZE = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HELLO}
CALL = {"jsonrpc": "2.0", "id": "c", "method": "tools/call", "params": {"name": "add", "arguments": {"a": 1}}}
SECONDS = 60


def line(message: object) -> bytes:
    return json.dumps(message).encode() + b"\n"


@contextmanager
def proxied(bench, *command: str, **environ: str) -> Iterator[subprocess.Popen[bytes]]:
    """Start the proxy with pipes for stdin, stdout and stderr. It has no process id of its own."""
    pipe = subprocess.PIPE
    with subprocess.Popen(
        bench.warm_command("proxy", *command),
        env={**bench.environment(), **environ},
        cwd=bench.home.parent,
        stdin=pipe,
        stdout=pipe,
        stderr=pipe,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def python(source: str) -> tuple[str, ...]:
    """Return the command of a server in a few lines of Python."""
    return (sys.executable, "-c", f"import os, signal, subprocess, sys, time\n{source}")


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.anyio
@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_a_session_is_unchanged_and_recorded(bench, mode: str) -> None:
    async def session(*command: str) -> tuple[object, ...]:
        parameters = StdioServerParameters(
            command=command[0], args=list(command[1:]), env=bench.environment()
        )
        with anyio.fail_after(SECONDS):
            async with Client(parameters, mode=mode) as client:
                tools = await client.list_tools()
                good = await client.call_tool("add", {"a": 1, "b": 2})
                return client.server_info, tools, good, await client.call_tool("add", {"a": "x"})

    desk = script_command(DESK_SERVER)
    direct = await session(*desk)
    assert direct == await session(*bench.warm_command("proxy", *desk))
    calls = bench.rows("select tool, arguments, outcome from calls order by id")
    assert [(call["tool"], call["outcome"]) for call in calls] == [("add", "ok"), ("add", "tool_error")]
    (episode,) = bench.rows("select * from episodes")
    assert (episode["agent"], episode["termination"], episode["invalid"]) == ("mcp", "agent_exit", None)
    named = [tool["function"]["name"] for tool in json.loads(episode["tools"])]
    assert named == [tool.name for tool in direct[1].tools]
    (run,) = bench.rows("select * from runs")
    assert (run["agent"], run["graded"]) == ("proxy", 0)
    assert json.loads(run["settings"])["server"] == list(desk)


@pytest.mark.parametrize("before", [(), ("--",), ("--durability", "full"), ("--durability", "full", "--")])
def test_options_of_the_command_are_passed_through(bench, before: tuple[str, ...]) -> None:
    says = python("print(sys.argv[1:], flush=True); sys.stdin.read()")
    own = ("--help", "-h", "--durability", "x", "--", "--http", "--json")
    with proxied(bench, *before, *says, *own) as process:
        out, err = process.communicate(timeout=SECONDS)
    assert (process.returncode, err) == (0, b"")
    assert out == f"{list(own)}\n".encode()
    (run,) = bench.rows("select settings from runs")
    assert json.loads(run["settings"])["durability"] == ("full" if "full" in before else "normal")


def test_the_server_inherits_environment_folder_and_stderr(bench) -> None:
    says = python("print(os.environ['MARK'], os.getcwd(), file=sys.stderr)")
    with proxied(bench, *says, MARK="it-is-me") as process:
        _, err = process.communicate(timeout=SECONDS)
    assert f"it-is-me {bench.home.parent}\n".encode() in err
    assert b"it-is-me" not in (bench.run_folder / "recordings.db").read_bytes()


@pytest.mark.parametrize("ending", ["sys.exit(3)", "sys.exit(0)", "os.kill(os.getpid(), 9)", "os.close(1)"])
def test_a_dying_server_ends_the_session(bench, ending: str) -> None:
    dies = python(f"sys.stdin.buffer.readline(); sys.stdin.buffer.readline(); {ending}; time.sleep(600)")
    with proxied(bench, *dies) as process:
        assert process.stdin is not None and process.stdout is not None and process.stderr is not None
        process.stdin.write(line(INITIALIZE) + line(CALL))
        process.stdin.flush()
        assert process.stdout.read() == b""
        code = process.wait(SECONDS)
        err = process.stderr.read().decode()
    expected = {"sys.exit(3)": (3, 3), "sys.exit(0)": (1, 0), "os.close(1)": (143, -15)}.get(
        ending, (137, -9)
    )
    (episode,) = bench.rows("select * from episodes")
    assert (code, episode["exit_code"]) == expected
    assert episode["id"] in err and "while its client was connected" in err
    assert (episode["invalid"], episode["agent"], episode["agent_version"]) == ("server_died", "raw", "7")
    assert bench.rows("select outcome from calls") == [{"outcome": "transport_error"}]


def test_the_last_output_of_a_server_reaches_the_client(bench) -> None:
    """All of it, although the server has ended and a child of it holds the pipe open."""
    talks = python(
        "subprocess.Popen(['sleep', '600'], start_new_session=True)\n"
        "os.set_blocking(1, True); os.write(1, b'x' * 60000 + b'\\n'); sys.exit(5)"
    )
    with proxied(bench, *talks) as process:
        assert process.stdout is not None
        assert process.wait(SECONDS) == 5
        assert process.stdout.read() == b"x" * 60000 + b"\n"


STUBBORN = """
signal.signal(15, signal.SIG_IGN)
child = subprocess.Popen([sys.executable, '-c', 'import signal, time; signal.signal(15, signal.SIG_IGN); print(1, flush=True); time.sleep(600)'],
    start_new_session=True, stdout=subprocess.PIPE)
child.stdout.readline()
print(os.getpid(), child.pid, flush=True)
time.sleep(600)
"""


def test_a_second_signal_kills_a_stubborn_server(bench) -> None:
    with proxied(bench, *python(STUBBORN)) as process:
        assert process.stdout is not None
        server, child = map(int, process.stdout.readline().split())
        process.send_signal(signal.SIGTERM)
        process.send_signal(signal.SIGINT)
        process.wait(SECONDS)
        assert process.returncode - 128 in (signal.SIGTERM, signal.SIGINT)  # either may be taken first
    assert not is_alive(server) and not is_alive(child)
    (episode,) = bench.rows("select * from episodes")
    assert (episode["termination"], episode["invalid"], episode["exit_code"]) == ("cancelled", None, -9)


def test_a_signal_lets_the_server_exit_by_itself(bench) -> None:
    tidy = "signal.signal(15, lambda *_: (print('bye', flush=True), sys.exit(0))); print('up', flush=True)\n"
    with proxied(bench, *python(tidy + "time.sleep(600)")) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"up\n"
        process.send_signal(signal.SIGTERM)
        assert process.stdout.read() == b"bye\n"
        assert process.wait(SECONDS) == 143
    assert bench.rows("select termination, exit_code from episodes") == [
        {"termination": "cancelled", "exit_code": 0}
    ]
    assert [row["body"] for row in bench.rows("select body from frames")] == ["up\n", "bye\n"]


def test_a_server_that_ignores_the_end_of_input_is_killed(bench) -> None:
    with proxied(bench, *python(STUBBORN)) as process:
        assert process.stdin is not None and process.stdout is not None
        server, child = map(int, process.stdout.readline().split())
        process.stdin.close()
        assert process.wait(SECONDS) == 137
    assert not is_alive(server) and not is_alive(child)
    assert bench.rows("select termination from episodes") == [{"termination": "agent_exit"}]


def test_a_client_that_closes_its_input_gets_its_answer(bench, tmp_path: Path) -> None:
    """Even if the answer takes longer than the time for the server to exit, because the client still waits."""
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    answers = python(f'sys.stdin.read(); open({str(gate)!r}).read(); print(\'{{"id": 1, "result": {{}}}}\')')
    with proxied(bench, *answers) as process:
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(line(INITIALIZE))
        process.stdin.close()
        with gate.open("w"):  # blocks until the server opens it too
            pass
        assert process.stdout.read() == b'{"id": 1, "result": {}}\n'
        assert process.wait(SECONDS) == 0


def test_a_server_that_stays_after_its_last_answer_is_ended(bench) -> None:
    answers = python('sys.stdin.read(); print(\'{"id": 1, "result": {}}\', flush=True); signal.pause()')
    with proxied(bench, *answers) as process:
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(line(INITIALIZE))
        process.stdin.close()
        assert process.stdout.read() == b'{"id": 1, "result": {}}\n'
        assert process.wait(SECONDS) == 143


def test_everything_ends_when_the_client_goes_away(bench) -> None:
    floods = python("print(os.getpid(), flush=True)\nwhile True: os.write(1, b'x' * 1000 + b'\\n')")
    with proxied(bench, *floods) as process:
        assert process.stdin is not None and process.stdout is not None
        server = int(process.stdout.readline())
        process.stdout.close()
        process.stdin.close()
        process.wait(SECONDS)
    assert not is_alive(server)
    assert bench.rows("select termination, invalid from episodes") == [
        {"termination": "agent_exit", "invalid": None}
    ]


def test_a_client_whose_socket_is_reset_has_left(bench) -> None:
    """Its input and output can be one socket: if its client leaves an answer unread, reading fails."""
    command = bench.warm_command("proxy", "cat")
    with on_one_socket(command, SECONDS, bench.environment()) as (ours, process):
        ours.sendall(line(INITIALIZE))
        ours.recv(1, socket.MSG_PEEK)
        ours.close()
        assert process.wait(SECONDS) == 0
    (episode,) = bench.rows("select termination, invalid, invalid_detail from episodes")
    assert episode == {"termination": "agent_exit", "invalid": None, "invalid_detail": None}


@pytest.mark.anyio
@pytest.mark.parametrize(("listen", "stop"), [("0", signal.SIGTERM), ("0.0.0.0:0", signal.SIGHUP)])
async def test_sessions_over_http_end_with_the_proxy(bench, listen: str, stop: signal.Signals) -> None:
    """SIGHUP is the end of its terminal."""
    accept = {"Accept": "application/json, text/event-stream"}
    async with sdk_server(echo_server()) as url:
        with bench.start("proxy", "--http", listen, url) as proxy:
            try:
                address = (await anyio.to_thread.run_sync(proxy.stdout.readline)).strip()
                assert address.startswith("http://127.0.0.1:")
                async with httpx2.AsyncClient() as client:
                    assert (await client.post(address, json=INITIALIZE, headers=accept)).status_code == 200
                proxy.send_signal(stop)
                await anyio.to_thread.run_sync(proxy.communicate)
            finally:
                proxy.kill()
    assert proxy.returncode == 0
    assert bench.rows("select termination from episodes") == [{"termination": "agent_exit"}]


def test_a_command_that_cannot_be_run_leaves_nothing(bench, tmp_path: Path) -> None:
    done = bench.run("proxy", "no-such-server", "--flag", code=127)
    assert "no command 'no-such-server'" in done.stderr and "Traceback" not in done.stderr
    (tmp_path / "script").write_text("not executable")
    done = bench.run("proxy", str(tmp_path / "script"), code=126)
    assert "Permission denied" in done.stderr
    assert not (bench.home / "runs").exists()


def test_an_unwritable_home_is_reported_and_ends_the_server(bench, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    bench.environ["MCP_BENCH_HOME"] = str(tmp_path / "file" / "home")
    pid = tmp_path / "pid"
    notes = python(f"open({str(pid)!r}, 'w').write(str(os.getpid())); time.sleep(600)")
    done = bench.run("proxy", *notes, code=1)
    assert "MCP_BENCH_HOME" in done.stderr and "Traceback" not in done.stderr
    assert not pid.exists() or not pid.read_text() or not is_alive(int(pid.read_text()))


def test_lines_that_cannot_be_recorded_are_not_forwarded(bench, tmp_path: Path) -> None:
    """With a full disk, the server never sees the line, and the client sees the end of output."""
    seen = tmp_path / "seen"
    keeps = python(f"print('up', flush=True); open({str(seen)!r}, 'w').write(sys.stdin.readline())")
    command = ["sh", "-c", 'ulimit -f 2000 && exec "$@"', "sh", *bench.command("proxy", *keeps)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, env=bench.environment(), stdin=pipe, stdout=pipe, stderr=pipe) as process:
        assert process.stdin is not None and process.stdout is not None and process.stderr is not None
        assert process.stdout.readline() == b"up\n"
        process.stdin.write(b'"' + b"x" * 3_000_000 + b'"\n')
        process.stdin.flush()
        assert process.stdout.read() == b""
        assert process.wait(SECONDS) == 1
        assert "It could not be recorded" in process.stderr.read().decode()
    assert not seen.exists() or not seen.read_text().endswith("\n")


def test_wrong_use_is_reported(bench) -> None:
    assert "Missing argument" in bench.run("proxy", code=2).stderr
    assert "needs the URL" in bench.run("proxy", "--http", "0", "cat", code=2).stderr
    assert "[HOST:]PORT" in bench.run("proxy", "--http", "here", "http://127.0.0.1:1/mcp", code=2).stderr
    assert "is not the URL" in bench.run("proxy", "--http", "0", "http://[bad/mcp", code=2).stderr
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        assert "cannot listen" in bench.run("proxy", "--http", port, "http://127.0.0.1:1/mcp", code=1).stderr
    assert not list((bench.home / "runs").iterdir())
    assert "Examples" in bench.run("proxy", "--help").stdout


def test_other_commands_on_an_ungraded_session(bench, tmp_path: Path) -> None:
    with proxied(bench, "cat") as process:
        process.communicate(line(INITIALIZE) + line(CALL), timeout=SECONDS)
    (row,) = bench.report()
    assert (row["agent"], row["episodes"], row["ungraded"], row["invalid"]) == ("raw", 1, 1, 0)
    (episode,) = bench.rows("select id from episodes")
    assert "add" in bench.run("show", episode["id"]).stdout
    out = tmp_path / "out.jsonl"
    refused = bench.run("export", "--split", "all", "--min-partial", "0", "--out", out, code=3).stderr
    assert "1 without a grade" in refused and not out.exists()
    done = bench.run("record", "--resume", bench.run_folder.name, code=2)
    assert "mcp-bench proxy" in done.stderr


def test_input_and_output_can_be_non_blocking(bench) -> None:
    """Launchers share the open files with it. Nothing is lost if the client writes and reads late."""
    line = b'"' + b"x" * 300_000 + b'"\n'
    (source, ours_in), (ours_out, sink) = os.pipe(), os.pipe()
    for descriptor in (source, sink):
        os.set_blocking(descriptor, False)
    command = bench.warm_command("proxy", *python("print('up', flush=True); os.execvp('cat', ['cat'])"))
    with subprocess.Popen(command, stdin=source, stdout=sink, env=bench.environment()) as process:
        os.close(source)
        os.close(sink)
        with os.fdopen(ours_in, "wb") as writer, os.fdopen(ours_out, "rb") as reader:
            assert reader.readline() == b"up\n"
            threading.Thread(target=lambda: (writer.write(line), writer.close())).start()
            assert reader.read() == line
        assert process.wait(SECONDS) == 0
