"""Spans of recorded runs, as a collector receives them."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp.client import Client
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from mcp_bench.bridge.telemetry import answering
from mcp_bench.servers.extras import install_extra
from tests.support import DESK_SERVER
from tests.support.http.http_peers import echo_server, sdk_server
from tests.support.http.otlp_receiver import Receiver, attributes, otlp_receiver

pytestmark = pytest.mark.system

Write = Callable[[str], str]

TRACE, CALLER = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
CALLS = f"""
server = Server()
server.connect()
server.call("write", key="sky", value="cerulean-sentinel")
server.call("read", key="none")
server.ask("tools/call", {{"arguments": {{}}}})
traced = {{"traceparent": "00-{TRACE}-{CALLER}-01", "tracestate": "vendor=1"}}
server.ask("tools/call", {{"name": "pages", "arguments": {{"size": 3}}, "_meta": traced}})
modern = {{"io.modelcontextprotocol/protocolVersion": "2026-07-28", "traceparent": "nonsense"}}
server.ask("tools/call", {{"name": "read", "arguments": {{"key": "sky"}}, "_meta": modern}})
print("the answer")
"""


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with otlp_receiver() as opened:
        yield opened


def record(bench: Any, option: str, endpoint: str | None, **environ: str) -> str:
    if endpoint is not None:
        bench.environ["OTEL_EXPORTER_OTLP_ENDPOINT"] = endpoint
    bench.environ |= environ
    return str(
        bench.run(
            "record", "--agent", "script", "--agent-option", option, "--benchmark", "notebook",
            "--task", "colours",
        ).stderr
    )  # fmt: skip


def calls_and_episode(receiver: Receiver) -> tuple[list[Any], Any]:
    episode, *calls = receiver.spans
    assert episode.name == "invoke_agent script"
    return calls, episode


def test_every_call_is_a_span_below_its_episode(bench: Any, script: Write, receiver: Receiver) -> None:
    record(bench, script(CALLS), receiver.url)
    calls, episode = calls_and_episode(receiver)
    (row,) = bench.rows("select * from episodes")
    assert [call.name for call in calls] == [
        "tools/call write", "tools/call read", "tools/call", "tools/call pages", "tools/call read",
    ]  # fmt: skip
    assert {call.kind for call in calls} == {Span.SPAN_KIND_SERVER}
    assert attributes(calls[0]) == {
        "mcp.method.name": "tools/call",
        "mcp.protocol.version": "2025-06-18",
        "jsonrpc.request.id": "3",
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "write",
        "network.transport": "pipe",
        "mcp_bench.episode": row["id"],
    }
    below = [call for call in calls if call.parent_span_id == episode.span_id]
    assert [call.trace_id for call in below] == [episode.trace_id] * 4
    assert (episode.start_time_unix_nano, episode.end_time_unix_nano) == (
        row["started_us"] * 1000,
        row["ended_us"] * 1000,
    )
    stored = bench.rows("select started_us, ended_us from calls order by id")
    times = [(call.start_time_unix_nano // 1000, call.end_time_unix_nano // 1000) for call in calls]
    assert times == [(call["started_us"], call["ended_us"]) for call in stored]
    facts = attributes(episode)
    assert facts["mcp_bench.task"] == "colours"
    assert facts["mcp_bench.run"] == bench.run_folder.name
    assert facts["gen_ai.operation.name"] == "invoke_agent"
    assert receiver.resource["service.name"] == "mcp-bench"


def test_errors_are_distinguished(bench: Any, script: Write, receiver: Receiver) -> None:
    record(bench, script(CALLS), receiver.url)
    calls, _ = calls_and_episode(receiver)
    outcomes = [call["outcome"] for call in bench.rows("select outcome from calls order by id")]
    types = [attributes(call).get("error.type") for call in calls]
    assert outcomes[:4] == ["ok", "tool_error", "rpc_error", "ok"]
    assert types[:4] == [None, "tool_error", "-32602", None]
    assert attributes(calls[2])["rpc.response.status_code"] == "-32602"
    failed = [call.status.code == Status.STATUS_CODE_ERROR for call in calls]
    assert failed[:4] == [False, True, True, False]
    assert calls[2].status.message


def test_a_message_is_found_by_its_id_or_else_its_number() -> None:
    batch = b'[{"id": 7, "result": "int"}, {"id": "7", "result": "text"}]'
    found = [answering(batch, rpc_id) for rpc_id in ("7", "7.0", '"7"', "8")]
    assert [message.get("result") for message in found] == ["int", "int", "text", None]


def test_a_clients_trace_continues_and_frames_are_unchanged(
    bench: Any, script: Write, receiver: Receiver
) -> None:
    record(bench, script(CALLS), receiver.url)
    calls, episode = calls_and_episode(receiver)
    traced, modern = calls[3], calls[4]
    assert (traced.trace_id.hex(), traced.parent_span_id.hex()) == (TRACE, CALLER)
    assert traced.trace_state == "vendor=1"
    assert [link.span_id for link in traced.links] == [episode.span_id]
    assert modern.parent_span_id == episode.span_id
    assert attributes(modern)["mcp.protocol.version"] == "2026-07-28"
    sent = bench.rows("select body from frames where method = 'tools/call' and body like '%traceparent%'")
    metas = [json.loads(frame["body"])["params"]["_meta"] for frame in sent]
    assert metas[0] == {"traceparent": f"00-{TRACE}-{CALLER}-01", "tracestate": "vendor=1"}


@pytest.mark.parametrize(("value", "sent"), [("true", True), ("SPAN_ONLY", True), ("event_only", False)])
def test_content_is_sent_only_on_request(
    bench: Any, script: Write, receiver: Receiver, value: str, sent: bool
) -> None:
    record(bench, script(CALLS), receiver.url, OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=value)
    calls, _ = calls_and_episode(receiver)
    facts = attributes(calls[0])
    assert ("gen_ai.tool.call.arguments" in facts, "gen_ai.tool.call.result" in facts) == (sent, sent)
    assert (b"cerulean-sentinel" in b"".join(receiver.bodies)) == sent
    if sent:
        arguments = json.loads(facts["gen_ai.tool.call.arguments"])
        assert arguments == {"key": "sky", "value": "cerulean-sentinel"}
        result = json.loads(facts["gen_ai.tool.call.result"])
        assert result["content"] == [{"type": "text", "text": "written"}]


def test_no_span_contains_a_grade(bench: Any, script: Write, receiver: Receiver) -> None:
    record(bench, script(CALLS), receiver.url, OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT="true")
    sent = b"".join(receiver.bodies)
    assert len(bench.grades()) == 1
    for secret in (b"strict", b"partial", b"expects-", b"viridian-sentinel", b"final-state", b"notebook-1"):
        assert secret not in sent


def test_a_call_without_a_response_is_an_error(bench: Any, script: Write, receiver: Receiver) -> None:
    leaves = """
server = Server()
server.connect()
os.mkfifo("never")
wait = {"name": "wait", "arguments": {"path": os.path.abspath("never")}}
server.send(json.dumps({"jsonrpc": "2.0", "id": 9, "method": "tools/call", "params": wait}).encode())
server.send(b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":9}}')
"""
    record(bench, script(leaves), receiver.url)
    ((call,), _) = calls_and_episode(receiver)
    assert bench.rows("select outcome from calls") == [{"outcome": "cancelled"}]
    assert attributes(call)["error.type"] == "cancelled"


def test_a_proxied_server_is_traced_too(bench: Any, receiver: Receiver) -> None:
    """The proxy itself has no telemetry code."""
    bench.environ["OTEL_EXPORTER_OTLP_ENDPOINT"] = receiver.url
    desk = DESK_SERVER
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
    add = {"name": "add", "arguments": {"a": 1, "b": 2}}
    messages = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": "c-1", "method": "tools/call", "params": add},
    ]
    pipe = subprocess.PIPE
    with subprocess.Popen(
        bench.command("proxy", sys.executable, desk), env=bench.environment(), cwd=bench.home.parent,
        stdin=pipe, stdout=pipe, stderr=pipe, text=True,
    ) as proxy:  # fmt: skip
        try:
            for message in messages:
                proxy.stdin.write(json.dumps(message) + "\n")
                proxy.stdin.flush()
                if "id" in message:
                    assert json.loads(proxy.stdout.readline())["id"] == message["id"]
            proxy.communicate(timeout=60)
        finally:
            proxy.kill()
    assert proxy.returncode == 0
    _, call = receiver.spans
    facts = attributes(call)
    assert (call.name, facts["jsonrpc.request.id"]) == ("tools/call add", "c-1")
    assert facts["mcp.protocol.version"] == "2025-06-18"


@pytest.mark.anyio
@pytest.mark.parametrize("era", ["legacy", "2026-07-28"])
async def test_a_server_on_http_is_traced_with_its_session(bench: Any, receiver: Receiver, era: str) -> None:
    bench.environ["OTEL_EXPORTER_OTLP_ENDPOINT"] = receiver.url
    async with sdk_server(echo_server()) as url:
        with bench.start("proxy", "--http", "0", url) as proxy:
            try:
                address = (await anyio.to_thread.run_sync(proxy.stdout.readline)).strip()
                async with Client(address, mode=era) as client:
                    await client.call_tool("echo", {"text": "hello"})
                proxy.send_signal(signal.SIGINT)
                await anyio.to_thread.run_sync(proxy.communicate)
            finally:
                proxy.kill()
    (call,) = [span for span in receiver.spans if span.name == "tools/call echo"]
    facts = attributes(call)
    assert facts["network.transport"] == "tcp"
    assert facts["mcp.protocol.version"] == ("2025-11-25" if era == "legacy" else era)
    assert bool(facts.get("mcp.session.id")) == (era == "legacy")


def test_an_unreachable_endpoint_is_only_reported(bench: Any, script: Write) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:  # reserves the port, and never answers
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        stderr = record(bench, script(CALLS), url)
    assert url in stderr
    assert len(bench.grades()) == 1
    assert bench.rows("select count(*) as calls from calls") == [{"calls": 5}]


AT_EXIT = """
import atexit, sys
atexit.register(lambda: open({path!r}, "a").write(str("opentelemetry.sdk" in sys.modules) + "\\n"))
"""
BLOCKED = """
import sys
sys.modules["opentelemetry.sdk"] = sys.modules["opentelemetry.exporter"] = None
"""


def customise(bench: Any, folder: Path, source: str) -> None:
    """Make every Python process of the command run `source` first."""
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(source)
    bench.environ["PYTHONPATH"] = f"{bench.environment()['PYTHONPATH']}:{folder}"


def test_without_an_endpoint_nothing_is_imported(bench: Any, script: Write, tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    customise(bench, tmp_path / "custom", AT_EXIT.format(path=str(seen)))
    record(bench, script(CALLS), None)
    assert set(seen.read_text().split()) == {"False"}
    record(bench, script(CALLS), "http://127.0.0.1:9")
    assert "True" in seen.read_text().split()


def test_without_the_packages_the_run_says_what_to_install(bench: Any, script: Write, tmp_path: Path) -> None:
    customise(bench, tmp_path / "custom", BLOCKED)
    stderr = record(bench, script(CALLS), "http://127.0.0.1:9")
    assert install_extra("otel") in stderr
    assert len(bench.grades()) == 1


def test_an_import_sends_nothing(bench: Any, receiver: Receiver, tmp_path: Path) -> None:
    path = tmp_path / "chats.jsonl"
    path.write_text(json.dumps({"messages": [{"role": "user", "content": "Look."}]}) + "\n")
    bench.environ["OTEL_EXPORTER_OTLP_ENDPOINT"] = receiver.url
    assert "imported 1 episodes" in bench.run("import", path, "--format", "openai").stdout
    assert receiver.bodies == []


def test_a_wrong_setting_is_only_reported(bench: Any, script: Write) -> None:
    stderr = record(bench, script(CALLS), "http://127.0.0.1:9", OTEL_BSP_MAX_QUEUE_SIZE="-5")
    assert "the observer opentelemetry cannot be started: ValueError: max_queue_size must be" in stderr
    assert len(bench.grades()) == 1


@pytest.mark.parametrize("off", [{"OTEL_SDK_DISABLED": "true"}, {"OTEL_TRACES_EXPORTER": "none"}])
def test_telemetry_can_be_disabled(
    bench: Any, script: Write, receiver: Receiver, off: dict[str, str]
) -> None:
    record(bench, script(CALLS), receiver.url, **off)
    assert receiver.bodies == []
