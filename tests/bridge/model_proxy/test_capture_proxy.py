"""The model proxy: what it forwards, what it stores, and what it never stores."""

import contextlib
import gzip
import json
import threading
from pathlib import Path
from typing import Any

import anyio
import anyio.abc
import pytest

from mcp_bench.bridge.model_proxy import capture as capture_module
from mcp_bench.bridge.model_proxy.capture import ModelCapture
from mcp_bench.recorder.frames.body import CHUNK, LARGE
from mcp_bench.recorder.runs.run_folder import RunFolder
from mcp_bench.recorder.store import model_calls
from mcp_bench.servers.errors import WrongUseError
from tests.support.http.http_peers import LOOPBACK, TIMEOUT, Script, post, scripted_server
from tests.support.http.model_capture import (
    END,
    KEY,
    REQUEST,
    answer,
    capturing,
    connected,
    endpoint,
    event,
    receive_all,
    receive_until,
    unchunked,
    whole_exchange,
)
from tests.support.recorded import run_info

pytestmark = [pytest.mark.anyio, pytest.mark.system]


async def test_every_event_passes_at_once(tmp_path: Path) -> None:
    seen = [anyio.Event() for _ in range(5)]

    async def play(script: Script) -> None:
        await script.read_request()
        await script.begin_events()
        for number, wait in enumerate(seen):
            await script.chunk(event(f"part {number} "))
            await wait.wait()  # send nothing more before the agent has this
        await script.chunk(END)
        await script.say(b"0\r\n\r\n")

    async with (
        scripted_server(play) as server,
        capturing(endpoint(server), tmp_path) as captured,
        connected(captured) as client,
    ):
        await client.send(captured.ask())
        data = b""
        for number, wait in enumerate(seen):
            data = await receive_until(client, f"part {number} ".encode(), data)
            wait.set()
        data = await receive_until(client, b"\r\n0\r\n\r\n", data)
    (row,) = captured.rows()
    assert row["response"].encode() == unchunked(data)
    reply = json.loads(row["answer"])["choices"][0]
    assert reply["message"]["content"] == "".join(f"part {number} " for number in range(5))
    assert (row["outcome"], row["finish"], row["model"], row["kind"]) == ("ok", "stop", "m-1", "turn")
    assert json.loads(row["parameters"]) == {"temperature": 0.5}
    assert (row["request"].encode(), row["method"], row["path"]) == (REQUEST, "POST", "/v1/chat/completions")


async def test_a_request_is_stored_before_its_end_is_forwarded(tmp_path: Path) -> None:
    stored: list[dict[str, Any]] = []

    async def play(script: Script) -> None:
        await script.read_request()
        stored.extend(captured.rows())
        await script.say(answer(b"{}"))

    async with (
        scripted_server(play) as server,
        capturing(endpoint(server), tmp_path) as captured,
        connected(captured) as client,
    ):
        await client.send(captured.ask())
        await receive_until(client, b"{}")
    assert [(row["request"], row["ended_us"]) for row in stored] == [(REQUEST.decode(), None)]


async def test_requests_without_the_token_are_refused(tmp_path: Path) -> None:
    reached = False

    async def play(script: Script) -> None:
        nonlocal reached
        reached = True

    async with scripted_server(play) as server, capturing(endpoint(server), tmp_path) as captured:
        token = captured.path.split("/")[1]
        wrong = token[:-1] + ("y" if token.endswith("x") else "x")
        for path in ("/v1/chat/completions", f"/{wrong}/v1", f"//{token}/v1", f"/x/../{token}/v1"):
            async with connected(captured) as client:
                await client.send(post(captured.port, REQUEST, "Connection: close", path=path))
                assert b" 404 " in (await receive_all(client)).partition(b"\r\n")[0]
    assert (reached, captured.rows()) == (False, [])
    with pytest.raises(OSError):
        await anyio.connect_tcp(LOOPBACK, captured.port)  # it ends with its episode


async def test_no_other_host_is_reachable(tmp_path: Path) -> None:
    async def refuse(script: Script) -> None:
        pytest.fail("another server got a request")

    async def play(script: Script) -> None:
        assert b"\r\nHost: " + LOOPBACK.encode() in await script.read_request()
        await script.say(answer(b"{}"))

    async with (
        scripted_server(refuse) as other,
        scripted_server(play) as server,
        capturing(endpoint(server), tmp_path) as captured,
    ):
        target = f"//{LOOPBACK}:{other.port}/x"
        for path in (
            f"{captured.path.rpartition('/')[0]}{target}",
            f"{captured.path}@{LOOPBACK}:{other.port}/",
        ):
            async with connected(captured) as client:
                await client.send(post(captured.port, REQUEST, path=path))
                await receive_until(client, b"{}")
        async with connected(captured) as client:  # as a forward proxy
            line = f"http://{LOOPBACK}:{other.port}/x"
            await client.send(post(captured.port, REQUEST, "Connection: close", path=line))
            assert b" 404 " in (await receive_all(client)).partition(b"\r\n")[0]


async def test_a_truncated_stream_is_stored(tmp_path: Path) -> None:
    async def play(script: Script) -> None:
        await script.read_request()
        await script.begin_events()
        await script.chunk(event("half"))
        await script.say(b"5\r\nda")

    async with (
        scripted_server(play) as server,
        capturing(endpoint(server), tmp_path) as captured,
        connected(captured) as client,
    ):
        await client.send(captured.ask())
        data = await receive_all(client)
    assert not data.endswith(b"0\r\n\r\n")  # it must not look complete to the agent either
    (row,) = captured.rows()
    assert (row["outcome"], row["status"], row["finish"], row["usage"]) == ("cut", 200, None, None)
    assert row["response"].encode() == event("half") + b"da"
    assert json.loads(row["answer"])["choices"][0]["message"]["content"] == "half"


async def test_a_disconnecting_agent_ends_the_request(tmp_path: Path) -> None:
    left = anyio.Event()

    async def play(script: Script) -> None:
        await script.read_request()
        await script.begin_events()
        await script.chunk(event("half"))
        with contextlib.suppress(anyio.EndOfStream, anyio.BrokenResourceError):
            await script.stream.receive()
        left.set()

    async with scripted_server(play) as server, capturing(endpoint(server), tmp_path) as captured:
        async with connected(captured) as client:
            await client.send(captured.ask())
            await receive_until(client, b"half")
        await left.wait()
    (row,) = captured.rows()
    assert (row["outcome"], row["response"].encode()) == ("abandoned", event("half"))


async def test_running_requests_are_stored_when_the_episode_ends(tmp_path: Path) -> None:
    async def play(script: Script) -> None:
        await script.read_request()
        await script.begin_events()
        await script.chunk(event("half"))
        await anyio.sleep_forever()

    async with contextlib.AsyncExitStack() as stack:
        server = await stack.enter_async_context(scripted_server(play))
        async with capturing(endpoint(server), tmp_path) as captured:
            client = await stack.enter_async_context(connected(captured))  # stays open when the capture ends
            await client.send(captured.ask())
            await receive_until(client, b"half")
    (row,) = captured.rows()
    assert row["response"].encode() == event("half")
    assert row["ended_us"] is not None
    assert row["outcome"] in ("cut", "abandoned")


async def test_storing_a_response_outlives_the_listener(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = threading.Event()
    read, serve = model_calls._read, capture_module.listen

    def read_late(*args: Any) -> Any:
        assert ended.wait(TIMEOUT)
        return read(*args)

    async def listen_noted(*args: Any, **options: Any) -> None:
        try:
            await serve(*args, **options)
        finally:
            ended.set()

    monkeypatch.setattr(model_calls, "_read", read_late)
    monkeypatch.setattr(capture_module, "listen", listen_noted)
    _, got, (row,), _ = await whole_exchange(tmp_path, answer(b'{"choices": []}'))
    assert got.endswith(b'{"choices": []}')
    assert (row["response"], row["outcome"]) == ('{"choices": []}', "ok")


async def test_an_unused_endpoint_is_reported(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with capturing("http://127.0.0.1:9/v1", tmp_path):
        pass
    assert "sent no request to the captured endpoint http://127.0.0.1:9/v1" in caplog.text
    caplog.clear()
    await whole_exchange(tmp_path, answer(b"{}"))
    assert caplog.text == ""


async def test_errors_pass_and_are_stored_with_their_status(tmp_path: Path) -> None:
    body = b'{"error": {"message": "slow down"}}'
    _, got, (row,), _ = await whole_exchange(
        tmp_path, answer(body, b"retry-after: 7", b"set-cookie: s=1", status=b"429 Too Many Requests")
    )
    assert got.startswith(b"HTTP/1.1 429 ")
    assert b"retry-after: 7" in got
    assert got.endswith(body)
    assert (row["status"], row["outcome"], row["response"]) == (429, "error", body.decode())
    assert json.loads(row["response_headers"]) == {"content-type": "application/json", "retry-after": "7"}


async def test_an_unreachable_endpoint_gives_502(tmp_path: Path) -> None:
    async with scripted_server(lambda script: anyio.lowlevel.checkpoint()) as server:
        gone = endpoint(server)
    async with capturing(gone, tmp_path) as captured, connected(captured) as client:
        await client.send(captured.ask(REQUEST, "Connection: close"))
        got = await receive_all(client)
    assert b" 502 " in got.partition(b"\r\n")[0]
    assert f"no answer from the model endpoint at {gone.removesuffix('/v1')}".encode() in got
    (row,) = captured.rows()
    assert (row["status"], row["outcome"]) == (502, "error")


async def test_a_compressed_response_passes_unchanged_and_is_parsed(tmp_path: Path) -> None:
    document = {"model": "m-1", "choices": [{"message": {"content": "hi"}, "finish_reason": "stop"}]}
    coded = gzip.compress(json.dumps(document).encode())
    _, got, (row,), _ = await whole_exchange(tmp_path, answer(coded, b"content-encoding: gzip"))
    assert got.endswith(coded)
    assert b"content-encoding: gzip" in got
    assert bytes(row["response"]) == coded
    assert json.loads(row["answer"]) == document


async def test_the_endpoint_gets_the_login_and_no_accepted_coding(tmp_path: Path) -> None:
    received, _, (row,), _ = await whole_exchange(
        tmp_path, answer(b"{}"), headers=("Accept-Encoding: gzip, br", "User-Agent: agent/1", "x-mine: 1")
    )
    head = received.lower()
    assert b"accept-encoding: identity\r\n" in head
    assert KEY.encode() in head
    assert json.loads(row["request_headers"]) == {"content-type": "application/json", "user-agent": "agent/1"}


@pytest.mark.parametrize(
    "header", ["x-api-key: ", "x-goog-api-key: ", "api-key: ", "Authorization: Bearer ", "Cookie: session="]
)
async def test_no_key_is_stored_wherever_it_occurs(tmp_path: Path, header: str) -> None:
    secret = "sk-other-0123456789abcdef"
    echo = json.dumps({"error": {"message": f"wrong key {secret}, {KEY}, session={secret}"}}).encode()
    received, got, (row,), folder = await whole_exchange(
        tmp_path,
        answer(echo, b"x-request-id: req-" + secret.encode(), status=b"401 Unauthorized"),
        headers=(f"{header}{secret}", f"User-Agent: agent {secret}"),
        body=json.dumps({"model": "m", "user": f"session={secret}", "tools": []}).encode(),
        path=f"/chat/completions?alt=sse&key={secret}",
    )
    assert secret.encode() in received.partition(b"\r\n\r\n")[0]  # the endpoint received it
    assert secret.encode() in got  # and so did the agent, from the endpoint
    assert row["path"] == "/v1/chat/completions?alt=sse&key=[redacted]"
    assert "wrong key [redacted]" in json.loads(row["response"])["error"]["message"]
    for path in folder.rglob("*"):
        if path.is_file():
            assert secret.encode() not in path.read_bytes(), path
            assert KEY.encode() not in path.read_bytes(), path


async def test_a_large_body_is_stored_without_its_key(tmp_path: Path) -> None:
    filling = b"x" * (LARGE + CHUNK)
    body = b'{"model": "m", "tools": [1], "key": "%s", "text": "%s"}' % (KEY.encode(), filling)
    received, _, (row,), folder = await whole_exchange(tmp_path, answer(body), body=body)
    clean = body.replace(KEY.encode(), b"[redacted]")
    equal = [received.endswith(body), bytes(row["request"]) == clean, bytes(row["response"]) == clean]
    assert equal == [True, True, True]
    assert (row["kind"], row["model"]) == ("turn", "m")
    assert KEY.encode() not in (folder / "recordings.db").read_bytes()


def test_an_endpoint_url_with_a_password_is_refused(tmp_path: Path) -> None:
    with RunFolder.create(run_info(), root=tmp_path) as run, pytest.raises(WrongUseError, match="password"):
        ModelCapture("ep_1", "http://me:secret@127.0.0.1:1/v1", run.recording)


async def test_a_key_in_the_url_of_the_endpoint_reaches_it_and_is_not_stored(tmp_path: Path) -> None:
    secret, received = b"sk-in-a-url-0123456789", b""

    async def play(script: Script) -> None:
        nonlocal received
        received = await script.read_request()
        await script.say(answer(b"{}"))

    async with (
        scripted_server(play) as server,
        capturing(f"{endpoint(server)}?key={secret.decode()}", tmp_path) as captured,
        connected(captured) as client,
    ):
        assert secret.decode() not in captured.capture.base_url
        await client.send(captured.ask(REQUEST, "Connection: close"))
        await receive_all(client)
        assert captured.capture.named(captured.capture.base_url) == endpoint(server)
    assert received.startswith(b"POST /v1/chat/completions?key=" + secret)
    assert secret not in (captured.folder / "recordings.db").read_bytes()
