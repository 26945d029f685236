"""`mcp-bench serve --http`: many clients of one process, each with its own world."""

import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import anyio
import httpx2
import pytest
from mcp.client import Client

pytestmark = [pytest.mark.anyio, pytest.mark.system]
MODES = ("legacy", "2026-07-28")
RIGHT = {"sky": "cerulean-sentinel", "grass": "viridian-sentinel"}


def text(result) -> str:
    return result.content[0].text


@pytest.fixture
def served(bench):
    """Run `mcp-bench serve notebook --http 0 ARGS`; the context is its URL, and it ends with SIGTERM."""

    @contextmanager
    def serve(*args: str, sees: Callable[[str], None] = lambda line: None) -> Iterator[str]:
        command = bench.warm_command("serve", "notebook", "--http", "0", *args)
        with subprocess.Popen(
            command, env=bench.environment(), stderr=subprocess.PIPE, text=True, cwd=bench.home.parent
        ) as process:
            try:
                for line in process.stderr:
                    sees(line)
                    if " at http://" in line:
                        yield line.split(" at ")[1].split(",")[0]
                        break
                process.send_signal(signal.SIGTERM)
                said = process.stderr.read()
                assert process.wait(timeout=120) == 0, said
                assert "Traceback" not in said
            finally:
                process.kill()

    return serve


@pytest.mark.parametrize("mode", MODES)
async def test_a_task_over_http(bench, served, mode: str) -> None:
    with served() as url:
        async with Client(url, mode=mode) as server:
            assert "write" in {tool.name for tool in (await server.list_tools()).tools}
            early = await server.call_tool("write", {"key": "sky", "value": "x"})
            assert early.is_error and "next_task" in text(early)
            assert text(await server.call_tool("next_task", {})) == "Fill the page of colours."
            for key, value in RIGHT.items():
                assert not (await server.call_tool("write", {"key": key, "value": value})).is_error
            await server.call_tool("submit_answer", {"answer": "written"})
            assert "stored" in text(await server.call_tool("finish_task", {}))
            assert [prompt.name for prompt in (await server.list_prompts()).prompts] == ["next_task"]
            prompt = await server.get_prompt("next_task")
            assert prompt.messages[0].content.text == "Fill the page of numbers."
    assert sorted(grade["partial"] for grade in bench.grades()) == [0.0, 1.0]
    first, _ = bench.rows("select * from episodes order by id")
    assert (first["agent"], first["answer"], first["termination"]) == ("mcp", "written", "agent_exit")
    calls = bench.rows("select tool, execution, outcome from calls order by id")
    assert [tuple(call.values()) for call in calls] == [
        ("write", 1, "ok"), ("write", 2, "ok"), ("submit_answer", 3, "ok"),
    ]  # fmt: skip
    server_said = " ".join(
        row["body"] for row in bench.rows("select body from frames where direction = 'server'")
    )
    assert "sentinel" not in server_said and "partial" not in server_said


async def test_each_session_has_its_own_world(bench, served) -> None:
    with served() as url:
        async with anyio.create_task_group() as sessions:

            async def work(number: int) -> None:
                async with Client(url, mode="legacy") as server:
                    assert text(await server.call_tool("next_task", {})) == "Fill the page of colours."
                    for key in list(RIGHT)[:number]:
                        await server.call_tool("write", {"key": key, "value": RIGHT[key]})
                    await server.call_tool("finish_task", {})

            for number in (0, 1, 2, 0, 1, 2):
                sessions.start_soon(work, number)
    assert sorted(grade["partial"] for grade in bench.grades()) == [0.0, 0.0, 0.5, 0.5, 1.0, 1.0]
    counts = bench.rows("select count(*) n from calls group by episode order by n")
    assert [row["n"] for row in counts] == [1, 1, 2, 2]
    connections = bench.rows("select distinct connection from calls")
    assert len(connections) == 4


async def test_requests_without_session_share_the_client_of_a_url(bench, served) -> None:
    with served() as url:
        async with (
            Client(url, mode="2026-07-28") as one,
            Client(url, mode="2026-07-28") as other,
            Client(f"{url}/client-7", mode="2026-07-28") as third,
        ):
            await one.call_tool("next_task", {})
            assert not (await other.call_tool("write", {"key": "sky", "value": "x"})).is_error
            assert (await third.call_tool("write", {"key": "sky", "value": "x"})).is_error
            await third.call_tool("next_task", {})
        async with Client(f"{url}/client-7", mode="legacy") as third:
            assert not (await third.call_tool("write", {"key": "sky", "value": "x"})).is_error
    tasks = bench.rows("select task, termination from episodes")
    assert [(row["task"], row["termination"]) for row in tasks] == [("colours", "cancelled")] * 2
    assert len(bench.grades()) == 2


async def test_task_of_a_deleted_session_is_graded(bench, served) -> None:
    with served() as url:
        async with Client(url, mode="legacy") as server:
            await server.call_tool("next_task", {})
            await server.call_tool("write", {"key": "sky", "value": RIGHT["sky"]})
    (episode,) = bench.rows("select * from episodes")
    assert episode["termination"] == "agent_exit"
    assert [grade["partial"] for grade in bench.grades()] == [0.5]


async def test_too_many_sessions_and_too_large_bodies(bench, served) -> None:
    with served("--max-sessions", "1", "--max-body", "2000") as url:
        async with Client(url, mode="legacy") as server:
            await server.list_tools()
            with pytest.raises(Exception):  # noqa: B017 - any error for a 503
                async with Client(url, mode="legacy"):
                    pass
            async with httpx2.AsyncClient() as http:
                refused = await http.post(
                    url, content=b"x" * 3000, headers={"content-type": "application/json"}
                )
                assert refused.status_code == 413


async def ask(url: str, **headers: str) -> int:
    message = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    async with httpx2.AsyncClient() as http:
        answer = await http.post(
            url, json=message, headers={"accept": "application/json, text/event-stream", **headers}
        )
        return answer.status_code


async def test_access_needs_token_host_origin_and_path(bench, served) -> None:
    bench.environ["MCP_BENCH_TOKEN"] = "let-me-in"
    with served() as url:
        assert await ask(url) == 401
        assert await ask(url, authorization="Bearer wrong") == 401
        assert await ask(url, authorization="Bearer let-me-in") != 401
        assert await ask(url, authorization="Bearer let-me-in", host="evil.example") == 421
        assert await ask(url, authorization="Bearer let-me-in", origin="http://evil.example") == 403
        assert await ask(url.removesuffix("/mcp") + "/other", authorization="Bearer let-me-in") == 404
        assert await ask(url, **{"authorization": "Bearer let-me-in", "mcp-session-id": "none"}) == 404
    for run in (bench.home / "runs").iterdir() if (bench.home / "runs").exists() else ():
        assert not [path for path in run.rglob("*") if path.is_file() and b"let-me-in" in path.read_bytes()]


async def test_a_token_is_generated_on_all_addresses(bench, served) -> None:
    """It stays the same, so that configured clients find the listener again."""
    for address in ("0.0.0.0:0", "127.0.0.1:0"):
        with served("--http", address) as url:
            _, _, server, token, path = url.split("/")
            assert token == (bench.home / "http-token").read_text() and len(token) > 40
            assert (bench.home / "http-token").stat().st_mode & 0o777 == 0o600
            assert await ask(url) not in (401, 404)
            for wrong in (f"http://{server}/{path}", f"http://{server}/{token}x/{path}", f"http://{server}/"):
                assert await ask(wrong) == 401
            assert await ask(f"http://{server}/{path}", authorization=f"Bearer {token}") not in (401, 404)


def test_address_in_use_and_unknown_benchmark(bench, served) -> None:
    with served() as url:
        port = url.rpartition(":")[2].partition("/")[0]
        assert "cannot listen" in bench.run("serve", "notebook", "--http", port, code=1).stderr
    assert "did you mean notebook" in bench.run("serve", "notebok", "--http", "0", code=2).stderr


async def test_a_refused_stream_is_no_answer_to_a_running_call(bench, served, tmp_path: Path) -> None:
    """The SDK's client asks for its stream again when it broke, and the server may still have the old one."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    headers = {"accept": "application/json, text/event-stream"}
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "r", "version": "1"}}
    with served() as url:
        async with httpx2.AsyncClient(base_url=url, headers=headers, timeout=120) as http:

            async def ask(method: str, **params: object) -> str:
                message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
                answer = await http.post("", json=message)
                http.headers["mcp-session-id"] = answer.headers["mcp-session-id"]
                return answer.text

            await ask("initialize", **hello)
            await http.post("", json={"jsonrpc": "2.0", "method": "notifications/initialized"})
            await ask("tools/call", name="next_task", arguments={})
            async with anyio.create_task_group() as calling, http.stream("GET", ""):
                calling.start_soon(partial(ask, "tools/call", name="wait", arguments={"path": str(pipe)}))
                with await anyio.to_thread.run_sync(pipe.open, "w") as writer:  # opens once the tool reads
                    assert (await http.get("")).status_code == 409
                    writer.write("so long")
            await ask("tools/call", name="finish_task", arguments={})
    (call,) = bench.rows("select outcome, result from call_results")
    assert call["outcome"] == "ok" and "so long" in call["result"]


async def test_every_message_is_recorded(bench, served) -> None:
    with served() as url:
        async with Client(url, mode="legacy") as server:
            await server.list_tools()
            await server.call_tool("next_task", {})
            await server.call_tool("pages", {"size": 300_000})
    rows = bench.rows("select direction, body, episode from frames")
    answers = [json.loads(row["body"])["id"] for row in rows if row["direction"] == "server"]
    asked = [json.loads(row["body"]).get("id") for row in rows if row["direction"] == "client"]
    assert sorted(answers) == sorted(number for number in asked if number is not None)
    (large,) = [row for row in rows if len(row["body"]) > 300_000]
    assert large["episode"] is not None
