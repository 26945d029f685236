"""`mcp-bench serve` on stdio, as an agent's own configuration starts it."""

import json
import os
import signal
import sqlite3
import subprocess
from contextlib import closing

import pytest

from mcp_bench.servers.agentdojo import BENCHMARK as AGENTDOJO
from mcp_bench.servers.saasworld import API_BENCHMARK

pytestmark = [pytest.mark.anyio, pytest.mark.system]
MODES = ("legacy", "2026-07-28")
TOOLS = ["next_task", "finish_task", "write", "read", "pages", "wait", "submit_answer"]


def text(result) -> str:
    return result.content[0].text


def server_bytes(bench) -> str:
    return "\n".join(
        str(row["body"]) for row in bench.rows("select body from frames where direction = 'server'")
    )


@pytest.mark.parametrize("mode", MODES)
async def test_a_task_from_start_to_grade(bench, client, mode: str) -> None:
    async with client(mode, "serve", "notebook") as server:
        listed = [tool.name for tool in (await server.list_tools()).tools]
        assert listed == TOOLS
        early = await server.call_tool("write", {"key": "sky", "value": "cerulean-sentinel"})
        assert early.is_error and "next_task" in text(early)
        assert text(await server.call_tool("next_task", {})) == "Fill the page of colours."
        for key, value in {"sky": "cerulean-sentinel", "grass": "viridian-sentinel"}.items():
            assert not (await server.call_tool("write", {"key": key, "value": value})).is_error
        await server.call_tool("submit_answer", {"answer": "all written"})
        over = await server.call_tool("finish_task", {})
        assert not over.is_error and "next_task" in text(over)
        late = await server.call_tool("write", {"key": "sky", "value": "grey"})
        assert late.is_error and "next_task" in text(late)
        assert [tool.name for tool in (await server.list_tools()).tools] == TOOLS
        assert (await server.call_tool("finish_task", {})).is_error
    (run,) = bench.rows("select * from runs")
    assert (run["agent"], run["isolation"], run["home"], run["tools"]) == ("hand", "none", "native", "all")
    (episode,) = bench.rows("select * from episodes")
    assert (episode["agent"], episode["agent_version"]) == ("mcp", server_info(bench))
    assert (episode["termination"], episode["invalid"], episode["answer"]) == (
        "agent_exit",
        None,
        "all written",
    )
    calls = bench.rows("select tool, execution, outcome from calls order by id")
    assert [tuple(call.values()) for call in calls] == [
        ("write", 1, "ok"), ("write", 2, "ok"), ("submit_answer", 3, "ok"),
    ]  # fmt: skip
    assert [tool["function"]["name"] for tool in json.loads(episode["tools"])] == TOOLS[2:]
    (grade,) = bench.grades()
    assert (grade["partial"], grade["strict"]) == (1.0, 1)
    (row,) = bench.report()
    assert (row["agent"], row["benchmark"], row["episodes"], row["strict"]) == ("mcp", "notebook", 1, 1.0)
    assert "cerulean-sentinel" in bench.run("show", episode["id"]).stdout


def server_info(bench) -> str:
    """Return the version that the client reported, from the recording."""
    for row in bench.rows("select body from frames where direction = 'client' and kind = 'request'"):
        params = json.loads(row["body"])["params"]
        info = params.get("clientInfo") or params.get("_meta", {}).get("io.modelcontextprotocol/clientInfo")
        if info:
            return info["version"]
    raise AssertionError("no client reported its name")


@pytest.mark.parametrize("mode", MODES)
async def test_only_calls_of_the_world_belong_to_the_episode(bench, client, mode: str) -> None:
    """All frames are stored; handshakes and control calls lie outside the episode."""
    async with client(mode, "serve", "notebook") as server:
        await server.list_tools()
        await server.call_tool("next_task", {})
        await server.call_tool("read", {"key": "none"})
        await server.call_tool("no_such_tool", {})
        await server.call_tool("finish_task", {})
        await server.call_tool("read", {"key": "none"})
    rows = bench.rows("select episode, direction, method, body from frames order by id")
    inside = [row for row in rows if row["episode"] is not None]
    called = [json.loads(row["body"])["params"]["name"] for row in inside if row["direction"] == "client"]
    assert called == ["read", "no_such_tool"]
    assert len(inside) == 4
    requests = {
        json.loads(row["body"])["id"]
        for row in rows
        if row["direction"] == "client" and row["method"] and "id" in json.loads(row["body"])
    }
    answers = {json.loads(row["body"])["id"] for row in rows if row["direction"] == "server"}
    assert requests == answers
    outcomes = bench.rows("select tool, outcome, execution from calls order by id")
    assert [tuple(row.values()) for row in outcomes] == [
        ("read", "tool_error", 1),
        ("no_such_tool", "tool_error", None),
    ]


async def test_the_agent_sees_nothing_of_a_grade(bench, client) -> None:
    async with client("legacy", "serve", "notebook") as server:
        for _ in range(2):
            await server.call_tool("next_task", {})
            await server.call_tool("write", {"key": "x", "value": "y"})
            await server.call_tool("finish_task", {})
        assert "no more tasks" in text(await server.call_tool("next_task", {}))
    assert len(bench.grades()) == 2
    wire = server_bytes(bench).lower()
    for private in ("sentinel", "expects-", "final-state", "partial", "strict", "grade", "score"):
        assert private not in wire


@pytest.mark.parametrize("mode", MODES)
async def test_the_prompt_next_task_starts_a_task(bench, client, mode: str) -> None:
    async with client(mode, "serve", "notebook", "--task", "numbers", "--seed", "5") as server:
        assert [prompt.name for prompt in (await server.list_prompts()).prompts] == ["next_task"]
        prompt = await server.get_prompt("next_task")
        assert prompt.messages[0].content.text == "Fill the page of numbers."
        assert not (await server.call_tool("write", {"key": "one", "value": "uno-sentinel"})).is_error
        with pytest.raises(Exception, match="no more tasks"):
            await server.get_prompt("next_task")
    (episode,) = bench.rows("select * from episodes")
    assert (episode["task"], episode["seed"]) == ("numbers", 5)
    (grade,) = bench.grades()
    assert grade["partial"] == 0.5


async def test_next_task_ends_the_previous_one(bench, client) -> None:
    async with client("legacy", "serve", "notebook") as server:
        prompts = [text(await server.call_tool("next_task", {})) for _ in range(2)]
        assert prompts == ["Fill the page of colours.", "Fill the page of numbers."]
        assert [grade["partial"] for grade in bench.grades()] == [0.0]
        over = await server.call_tool("finish_task", {})
        assert "last" in text(over)
    assert len(bench.grades()) == 2


async def test_a_task_can_be_repeated(bench, client) -> None:
    async with client("legacy", "serve", "notebook", "--task", "colours") as server:
        await server.call_tool("next_task", {})
    async with client("legacy", "serve", "notebook", "--task", "colours") as server:
        await server.call_tool("next_task", {})
    (row,) = bench.report()
    assert row["episodes"] == 2


@pytest.mark.parametrize("benchmark,task", [("saasworld-api", None), ("agentdojo", "slack/user_task_2")])
async def test_the_reference_gets_the_full_score(bench, client, benchmark: str, task: str | None) -> None:
    found = API_BENCHMARK if task is None else AGENTDOJO
    task = task or next(API_BENCHMARK.tasks("train")).id
    reference = found.reference(task)
    prompt = found.task(task).prompt
    await found.aclose()
    async with client("2026-07-28", "serve", benchmark, "--task", task) as server:
        listed = {tool.name for tool in (await server.list_tools()).tools}
        assert text(await server.call_tool("next_task", {})) == prompt
        for call in reference.calls:
            assert call.name in listed
            assert not (await server.call_tool(call.name, call.arguments)).is_error
        await server.call_tool("submit_answer", {"answer": reference.answer})
        await server.call_tool("finish_task", {})
    (grade,) = bench.grades()
    assert grade["partial"] == 1.0


async def test_a_tool_of_another_domain_is_refused(bench, client) -> None:
    async with client("legacy", "serve", "agentdojo", "--task", "slack/user_task_2") as server:
        assert "get_iban" in {tool.name for tool in (await server.list_tools()).tools}
        await server.call_tool("next_task", {})
        refused = await server.call_tool("get_iban", {})
        assert refused.is_error and "next_task" in text(refused)
    (call,) = bench.rows("select * from calls")
    assert (call["outcome"], call["execution"]) == ("tool_error", None)


async def test_saasworld_lists_the_two_tools_of_its_api_variant(bench, client) -> None:
    async with client("legacy", "serve", "saasworld") as server:
        listed = [tool.name for tool in (await server.list_tools()).tools]
        assert listed == ["next_task", "finish_task", "api_search", "api_fetch", "submit_answer"]
        await server.call_tool("next_task", {})
    (run,) = bench.rows("select benchmark from runs")
    assert run["benchmark"] == "saasworld-api"


def test_a_call_before_the_start_is_not_part_of_the_task(bench, lines) -> None:
    with lines("serve", "notebook") as server:
        server.send(server.tool("next_task"), server.tool("write", key="sky", value="cerulean-sentinel"))
        answers = {
            answer["id"]: said
            for answer in (server.receive(), server.receive())
            if (said := answer["result"])
        }
        assert answers[server.last]["isError"]
        server.send(server.tool("read", key="sky"))
        assert "no note" in server.receive()["result"]["content"][0]["text"]
        server.end()
    assert [row["tool"] for row in bench.rows("select tool from calls")] == ["read"]


def test_a_running_call_is_part_of_the_ending_task(bench, lines, tmp_path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with lines("serve", "notebook") as server:
        server.call("next_task")
        server.send(server.tool("wait", path=str(pipe)))
        waiting = server.last
        with pipe.open("w") as writer:  # opens once the tool reads
            server.send(server.tool("finish_task"))
            writer.write("so long")
        assert server.receive()["id"] == waiting
        assert server.receive()["id"] == server.last
        server.end()
    (call,) = bench.rows("select * from calls")
    assert (call["tool"], call["outcome"], call["execution"]) == ("wait", "ok", 1)
    assert call["ended_us"] <= bench.rows("select ended_us from episodes")[0]["ended_us"]


@pytest.mark.parametrize("stop", [signal.SIGTERM, signal.SIGINT, None])
def test_the_open_task_is_graded_however_serving_ends(bench, lines, stop: signal.Signals | None) -> None:
    with lines("serve", "notebook") as server:
        server.call("next_task")
        server.call("write", key="sky", value="cerulean-sentinel")
        if stop is None:
            server.process.stdin.close()
        else:  # stdin stays open
            server.process.send_signal(stop)
        assert server.process.wait(timeout=120) == 0
    (episode,) = bench.rows("select * from episodes")
    assert episode["termination"] == ("agent_exit" if stop is None else "cancelled")
    assert [grade["partial"] for grade in bench.grades()] == [0.5]
    (row,) = bench.report()
    assert (row["episodes"], row["invalid"]) == (1, 0)


def test_an_idle_task_ends(bench, lines) -> None:
    with lines("serve", "notebook", "--idle", "0.05") as server:
        server.call("next_task")
        assert "colours is over" in server.process.stderr.readline()
        refused, is_error = server.call("write", key="sky", value="cerulean-sentinel")
        assert is_error and "next_task" in refused
        server.end()
    (episode,) = bench.rows("select * from episodes")
    assert episode["termination"] == "timeout"
    assert [grade["partial"] for grade in bench.grades()] == [0.0]


def test_too_many_calls(bench, lines) -> None:
    with lines("serve", "notebook", "--task", "numbers") as server:
        server.call("next_task")
        answers = [server.call("write", key="one", value="uno-sentinel") for _ in range(4)]
        assert [is_error for _, is_error in answers] == [False, False, False, True]
        server.end()
    assert bench.rows("select termination from episodes") == [{"termination": "max_calls"}]


def test_requests_before_the_end_of_input_are_answered(bench) -> None:
    hello = {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "pipe", "version": "1"},
    }
    messages = [
        {"id": 1, "method": "initialize", "params": hello},
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/call", "params": {"name": "next_task"}},
    ]
    text = "".join(json.dumps({"jsonrpc": "2.0", **message}) + "\n" for message in messages)
    done = subprocess.run(
        bench.warm_command("serve", "notebook"), input=text, env=bench.environment(), capture_output=True, text=True,
        timeout=120,
    )  # fmt: skip
    assert [json.loads(line)["id"] for line in done.stdout.splitlines()] == [1, 2]
    assert done.returncode == 0
    assert len(bench.grades()) == 1


def test_standard_input_may_be_a_file(bench, tmp_path) -> None:
    (tmp_path / "in").write_text('{"jsonrpc": "2.0", "id": 1, "method": "ping"}\n')
    with (tmp_path / "in").open() as source:
        done = subprocess.run(
            bench.warm_command("serve", "notebook"), stdin=source, env=bench.environment(), capture_output=True,
            text=True, timeout=120,
        )  # fmt: skip
    assert json.loads(done.stdout)["id"] == 1


def test_a_run_without_a_task_leaves_nothing(bench, lines) -> None:
    with lines("serve", "notebook") as server:
        server.end()
    assert list((bench.home / "runs").iterdir()) == []


def test_an_interactive_run_cannot_be_resumed(bench, lines) -> None:
    with lines("serve", "notebook", own=True) as server:
        server.call("next_task")
        server.process.kill()
        server.process.wait()
    refused = bench.run("record", "--resume", bench.run_folder.name, code=2)
    assert "recorded interactively" in refused.stderr
    (episode,) = bench.rows("select invalid from episodes")
    assert episode["invalid"] == "referee_died"


def test_export_includes_interactive_episodes(bench, lines, tmp_path) -> None:
    with lines("serve", "notebook") as server:
        server.call("next_task")
        server.call("write", key="sky", value="cerulean-sentinel")
        server.call("write", key="grass", value="viridian-sentinel")
        server.call("finish_task")
        server.end()
    out = tmp_path / "data.jsonl"
    bench.run("export", "--min-partial", "1", "--out", out)
    (line,) = out.read_text().splitlines()
    assert "next_task" not in json.dumps(json.loads(line)["messages"])


@pytest.mark.parametrize(
    "args,words",
    [
        (("notebok",), "did you mean notebook"),
        (("notebook", "--task", "colurs"), "did you mean colours"),
        (("notebook", "--split", "nosuch"), "unknown split"),
        (("notebook", "--seed", str(2**63)), "a number of 64 bits"),
        (("notebook", "--idle", "nan"), "not a finite number"),
    ],
)
def test_wrong_use(bench, args: tuple[str, ...], words: str) -> None:
    refused = bench.run("serve", *args, code=2)
    assert words in refused.stderr
    assert refused.stdout == ""
    assert not (bench.home / "runs").exists()


def test_grades_are_readable_only_by_the_operator(bench, lines) -> None:
    with lines("serve", "notebook") as server:
        server.call("next_task")
        assert "sentinel" not in server.end()
    path = bench.run_folder / "grades.db"
    assert path.stat().st_mode & 0o777 == 0o600
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("select count(*) from grades").fetchone() == (1,)
