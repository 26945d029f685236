"""The long-lived referee, and `mcp-bench connect`, which starts it if necessary."""

import json
import os
import signal
import socket
import sqlite3
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from mcp.client import Client

from mcp_bench.bridge.interactive.control import PROTOCOL
from tests.bridge.interactive.conftest import wait_until_ended
from tests.support.processes.one_socket import on_one_socket
from tests.support.processes.process_table import ancestors
from tests.support.task_folders import harbor_task

pytestmark = pytest.mark.system

MODES = ("legacy", "2026-07-28")
RIGHT = {"sky": "cerulean-sentinel", "grass": "viridian-sentinel"}


def text(result) -> str:
    return result.content[0].text


def status(bench) -> dict:
    return json.loads(bench.run("status", "--json").stdout)


@pytest.mark.anyio
@pytest.mark.parametrize("mode", MODES)
async def test_connect_starts_a_referee_and_works(bench, client, mode: str) -> None:
    bench.environ["OPENAI_API_KEY"] = "a-key-of-the-agent"
    async with client(mode, "connect", "notebook") as server:
        assert "write" in {tool.name for tool in (await server.list_tools()).tools}
        assert (await server.call_tool("write", {"key": "sky", "value": "x"})).is_error
        assert text(await server.call_tool("next_task", {})) == "Fill the page of colours."
        for key, value in RIGHT.items():
            assert not (await server.call_tool("write", {"key": key, "value": value})).is_error
        found = status(bench)
        (entry,) = found["entries"]
        assert (entry["benchmark"], entry["client"]["name"], entry["task"]) == ("notebook", "mcp", "colours")
        assert "stored" in text(await server.call_tool("finish_task", {}))
    assert os.getpid() not in ancestors(found["pid"])
    if os.geteuid() == 0:  # other users cannot read it
        assert b"a-key-of-the-agent" not in Path(f"/proc/{found['pid']}/environ").read_bytes()
    assert [grade["partial"] for grade in bench.grades()] == [1.0]
    assert bench.rows("select agent, termination from episodes") == [
        {"agent": "mcp", "termination": "agent_exit"}
    ]
    assert bench.run("down").stdout == "The referee has ended.\n"
    (row,) = bench.report()
    assert (row["agent"], row["strict"]) == ("mcp", 1.0)


def test_a_client_whose_socket_is_reset_has_left(bench) -> None:
    """Its input and output can be one socket: if its client leaves an answer unread, reading fails."""
    command = bench.warm_command("connect", "notebook")
    with on_one_socket(command, 60, bench.environment()) as (ours, process):
        client = {"name": "raw", "version": "1"}
        hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client}
        with ours.makefile("rb", buffering=0) as answers:
            ours.sendall(request(1, "initialize", hello))
            assert json.loads(answers.readline())["id"] == 1
            ours.sendall(request(2, "tools/call", {"name": "next_task", "arguments": {}}))
            assert answers.read(1) == b"{"
        ours.close()
        assert process.wait(60) == 0
    bench.run("down")
    assert bench.rows("select termination from episodes") == [{"termination": "agent_exit"}]


def request(number: int, method: str, params: dict[str, object]) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}).encode() + b"\n"


def test_referee_files_are_private(bench) -> None:
    bench.run("up")
    folder = bench.home / "referee"
    assert folder.stat().st_mode & 0o777 == 0o700
    for name in ("entry.sock", "control.sock", "secret", "lock", "log"):
        assert (folder / name).stat().st_mode & 0o077 == 0, name


def test_up_down_and_status(bench) -> None:
    assert "no referee is up" in bench.run("status", code=1).stdout
    assert json.loads(bench.run("status", "--json", code=1).stdout) == {"up": False}
    assert bench.run("down").stdout == "No referee is up.\n"
    assert "is up" in bench.run("up").stdout
    first = status(bench)
    again = bench.run("up")
    assert "already up" in again.stdout and again.stderr == ""
    for option in ("--idle", "--quit-after", "--max-sessions"):
        assert "It keeps its options" in bench.run("up", option, "60").stderr
    assert status(bench)["pid"] == first["pid"]
    assert (first["up"], first["entries"], first["quit_after"]) == (True, [], None)
    assert str(first["pid"]) in bench.run("status").stdout
    bench.run("down")
    bench.run("status", code=1)
    assert not (bench.home / "referee" / "entry.sock").exists()


def test_concurrent_up_commands_start_one_referee(bench) -> None:
    with ThreadPoolExecutor(4) as pool:
        runs = list(pool.map(lambda _: bench.run("up"), range(4)))
    assert len({run.stdout.split("process ")[1] for run in runs}) == 1
    assert (bench.home / "referee" / "log").read_text().count("the referee is up") == 1


def test_concurrent_connects_start_one_referee(bench, lines) -> None:
    commands = [bench.warm_command("connect", "notebook") for _ in range(2)]
    message = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping"}) + "\n"
    with ExitStack() as stack:
        pipe = subprocess.PIPE
        started = [
            stack.enter_context(
                subprocess.Popen(command, env=bench.environment(), stdin=pipe, stdout=pipe, text=True)
            )
            for command in commands
        ]
        for process in started:
            assert json.loads(process.communicate(message, timeout=120)[0])["id"] == 1
    assert (bench.home / "referee" / "log").read_text().count("the referee is up") == 1


def test_a_connection_without_a_choice_learns_that_its_client_has_one(bench, lines) -> None:
    entry = ("connect", "notebook", "--entry", "mine")
    with lines(*entry, "--limit", "1") as one:
        one.call("next_task")
        assert "Give the same --split, --task, --seed and --limit" in bench.run(*entry, code=2).stderr
        with lines(*entry, "--limit", "1") as other:
            assert other.call("write", key="sky", value=RIGHT["sky"]) == ("written", False)


def test_two_connections_share_one_client(bench, lines) -> None:
    with lines("connect", "notebook", "--entry", "mine") as one, lines("connect", "notebook") as stranger:
        with lines("connect", "notebook", "--entry", "mine") as other:
            one.call("next_task")
            assert stranger.call("write", key="sky", value="x")[1]
            assert other.call("write", key="sky", value=RIGHT["sky"]) == ("written", False)
            (mine,) = [entry for entry in status(bench)["entries"] if entry["connections"] == 2]
            assert mine["task"] == "colours" and mine["entry"] == "mine..."
            other.end()
        assert bench.grades() == []
        assert one.call("read", key="sky") == (RIGHT["sky"], False)
        refused = bench.run("connect", "notebook", "--entry", "mine", "--limit", "1", code=2)
        assert "another choice of tasks" in refused.stderr
        one.end()
    with lines("connect", "notebook", "--entry", "mine") as again:
        assert again.call("write", key="sky", value="x")[1]
        assert again.call("next_task") == ("Fill the page of numbers.", False)
        again.end()
    bench.run("down")
    assert sorted(grade["partial"] for grade in bench.grades()) == [0.0, 0.5]
    assert {row["termination"] for row in bench.rows("select termination from episodes")} == {"agent_exit"}


@pytest.mark.parametrize("how", ["down", "signal"])
def test_ending_the_referee_grades_open_tasks(bench, lines, how: str) -> None:
    with lines("connect", "notebook") as server:
        server.call("next_task")
        server.call("write", key="sky", value=RIGHT["sky"])
        pid = status(bench)["pid"]
        if how == "down":
            bench.run("down")
        else:
            os.kill(pid, signal.SIGTERM)
        assert server.process.wait(timeout=120) == 0  # although its stdin is still open
    bench.run("down")
    assert [grade["partial"] for grade in bench.grades()] == [0.5]
    assert bench.rows("select termination, invalid from episodes") == [
        {"termination": "cancelled", "invalid": None}
    ]


def test_a_killed_referee_is_replaced(bench, lines) -> None:
    with lines("connect", "notebook") as server:
        server.call("next_task")
        server.call("write", key="sky", value=RIGHT["sky"])
        first = status(bench)["pid"]
        os.kill(first, signal.SIGKILL)
        assert server.process.wait(timeout=120) == 0
    assert (bench.home / "referee" / "entry.sock").exists()
    before = bench.run_folder
    bench.run("status", code=1)
    with lines("connect", "notebook") as server:
        assert server.call("next_task") == ("Fill the page of colours.", False)
        assert status(bench)["pid"] != first
        server.end()
    bench.run("down")
    (row,) = bench.report()
    assert (row["episodes"], row["invalid"]) == (2, 1)
    with closing(sqlite3.connect(before / "recordings.db")) as db:
        assert db.execute("select invalid from episodes").fetchall() == [("referee_died",)]


def test_quit_after_ends_an_unused_referee(bench) -> None:
    bench.run("up", "--quit-after", "2")
    wait_until_ended(bench.home)
    bench.run("status", code=1)


@pytest.mark.anyio
async def test_a_client_over_http_keeps_the_referee_up(bench) -> None:
    bench.run("up", "--http", "0", "--quit-after", "4")
    url = status(bench)["http"].replace("BENCHMARK", "notebook")
    async with Client(url, mode="legacy") as server:
        await server.list_tools()
        until = time.monotonic() + 5
        while time.monotonic() < until:
            assert status(bench)["entries"][0]["connections"] == 1
    wait_until_ended(bench.home)


def test_connect_says_that_too_many_tasks_are_named(bench, tmp_path: Path) -> None:
    (tmp_path / "ids").write_text("colours numbers\n" * 60_000)
    refused = bench.run("connect", "notebook", "--task", f"@{tmp_path / 'ids'}", code=2)
    assert "the referee reads at most 1,048,576: name fewer" in refused.stderr


@pytest.mark.parametrize(
    "args,words",
    [
        (("notebok",), "did you mean notebook"),
        (("notebook", "--task", "colurs"), "did you mean colours"),
        (("notebook", "--split", "nosuch"), "unknown split"),
        (("notebook", "--seed", str(2**63)), "a number of 64 bits"),
    ],
)
def test_connect_reports_wrong_use(bench, args: tuple[str, ...], words: str) -> None:
    refused = bench.run("connect", *args, code=2)
    assert words in refused.stderr
    assert refused.stdout == ""


def test_connect_takes_a_relative_folder_from_here(bench) -> None:
    """The referee works in another folder; it has to find the tasks to say that it knows no such split."""
    harbor_task(bench.home.parent / "tasks/one")
    refused = bench.run("connect", "harbor:tasks", "--split", "nosuch", code=2)
    assert "unknown split" in refused.stderr


def exchange(path: Path, line: bytes) -> dict:
    with socket.socket(socket.AF_UNIX) as wire:
        wire.connect(str(path))
        wire.sendall(line + b"\n")
        return json.loads(wire.makefile().readline())


def test_control_requires_the_secret(bench) -> None:
    bench.run("up")
    folder = bench.home / "referee"
    for request in ({"secret": "wrong", "command": "down"}, {"command": "down"}, [], "down"):
        answer = exchange(folder / "control.sock", json.dumps(request).encode())
        assert list(answer) == ["error"]
    secret = (folder / "secret").read_text()
    assert (
        "unknown"
        in exchange(folder / "control.sock", json.dumps({"secret": secret, "command": "x"}).encode())["error"]
    )
    answer = exchange(folder / "entry.sock", json.dumps({"secret": secret, "command": "down"}).encode())
    assert "another version" in answer["error"]
    hello = {"protocol": PROTOCOL, "secret": secret, "benchmark": "notebook", "command": "down"}
    assert "mcp-bench connect" in exchange(folder / "entry.sock", json.dumps(hello).encode())["error"]
    assert status(bench)["up"]


@pytest.mark.parametrize("name", ["control.sock", "entry.sock"])
def test_an_odd_line_ends_no_referee(bench, name: str) -> None:
    """The tasks of all clients are there: nobody may end it without the secret."""
    bench.run("up")
    path = bench.home / "referee" / name
    odd = {"protocol": PROTOCOL, "secret": "\ud800", "benchmark": "notebook", "command": "status"}
    for line in (b"[" * 3000, json.dumps(odd).encode()):
        assert "error" in exchange(path, line)
    assert status(bench)["up"]


def test_forged_control_leaves_a_flag(bench, lines) -> None:
    with lines("connect", "notebook") as agent:
        agent.call("next_task")
        answer = exchange(bench.home / "referee" / "control.sock", b'{"secret": "guess", "command": "down"}')
        assert answer == {"error": "wrong secret"}
        agent.end()
    bench.run("down")
    (flag,) = bench.rows("select episode, kind, detail from flags")
    assert (flag["episode"], flag["kind"]) == (None, "forged_control")
    assert f"process {os.getpid()} " in flag["detail"]
    assert "'down'" in flag["detail"]


@pytest.mark.parametrize("command", ["up", "connect"])
def test_too_long_a_home_path_is_refused(bench, command: str) -> None:
    bench.environ["MCP_BENCH_HOME"] = str(bench.home / ("x" * 100))
    refused = bench.run(command, code=1)
    assert "too long for a Unix socket" in refused.stderr and "Traceback" not in refused.stderr


def test_a_referee_out_of_reach_is_an_error(bench) -> None:
    (bench.home / "referee").mkdir(parents=True)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as other:
        other.bind(str(bench.home / "referee" / "entry.sock"))
        refused = bench.run("connect", code=1)
    assert refused.stderr.startswith("Error: cannot connect to the referee at ")
    assert "entry.sock: Protocol wrong type" in refused.stderr


def test_referee_that_fails_to_start_reports_why(bench) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        refused = bench.run("up", "--http", str(taken.getsockname()[1]), code=1)
    assert "does not start" in refused.stderr and "cannot listen" in refused.stderr
    bench.run("status", code=1)


@pytest.mark.anyio
async def test_up_serves_every_benchmark_over_http(bench) -> None:
    bench.run("up", "--http", "0")
    url = status(bench)["http"].replace("BENCHMARK", "notebook")
    async with Client(url, mode="legacy") as server:
        assert text(await server.call_tool("next_task", {})) == "Fill the page of colours."
        assert status(bench)["entries"][0]["task"] == "colours"
    bench.run("down")
    assert len(bench.grades()) == 1
