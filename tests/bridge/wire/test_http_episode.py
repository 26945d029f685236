"""Admission to an episode over HTTP.

Requests without the right token, in another session, or from another process are refused and flagged.
"""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.desk.desk_over_http import desk_on_http

pytestmark = pytest.mark.system

Write = Callable[[str], str]

CLIENT = """
import http.client, urllib.parse
URL = urllib.parse.urlsplit(CONFIG["url"])
token = URL.path.split("/")[1]
TYPES = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
HELLO = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}}

def post(body, path=URL.path, **headers):
    wire = http.client.HTTPConnection("127.0.0.1", URL.port, timeout=60)
    try:
        wire.request("POST", path, body, {**TYPES, **{k.replace("_", "-"): v for k, v in headers.items()}})
        answer = wire.getresponse()
        return answer.status, answer.headers.get("mcp-session-id"), answer.read()
    except OSError as error:
        return 0, None, str(error).encode()
    finally:
        wire.close()

def message(method, number=1, **params):
    return json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}).encode()

status, session, _ = post(message("initialize", **HELLO))
mine = {"Mcp_Session_Id": session} if session else {}
post(b'{"jsonrpc":"2.0","method":"notifications/initialized"}', **mine)
assert b"add" in post(message("tools/list"), **mine)[2]
"""

TRIES = """
ping = message("ping")
tries = {
    "no token": post(ping, "/mcp")[0],
    "wrong token": post(ping, "/" + "x" * len(token) + "/mcp")[0],
    "discovery": post(ping, "/.well-known/oauth-protected-resource")[0],
    "session of another": post(ping, Mcp_Session_Id="0" * 32)[0],
    "rebinding": post(ping, Host="evil.example")[0],
    "web page": post(ping, Origin="http://evil.example")[0],
    "nested": post(b'{"jsonrpc":"2.0","id":7,"method":"ping","params":' + b"[" * 200000 + b"]" * 200000 + b"}",
                   **mine)[0] >= 400,
    "too large": post(b"x", Content_Length=str(1 << 31), **mine)[0],
}
tries["then"] = b"3" in post(message("tools/call", 9, name="add", arguments={"a": 1, "b": 2}), **mine)[2]
print(json.dumps(tries))
"""


def test_refused_requests_are_flagged_and_the_agent_continues(bench, script: Write) -> None:
    with desk_on_http() as url:
        bench.run(
            "record", "--server", url, "--agent", "script", "--agent-option", script(CLIENT + TRIES),
            "--prompt", "Look around.",
        )  # fmt: skip
    (episode,) = bench.rows("select * from episodes")
    assert json.loads(episode["answer"]) == {
        "no token": 404, "wrong token": 404, "discovery": 404, "session of another": 404, "rebinding": 421,
        "web page": 403, "nested": True, "too large": 413, "then": True,
    }  # fmt: skip
    assert (episode["invalid"], episode["connections"]) == (None, 1)
    flags = bench.rows("select kind, episode from flags order by id")
    assert [flag["kind"] for flag in flags] == [
        "wrong_token", "wrong_token", "other_session", "foreign_origin", "foreign_origin", "flood",
    ]  # fmt: skip
    assert {flag["episode"] for flag in flags} == {episode["id"]}


def test_the_token_of_another_process_is_refused(bench, script: Write, tmp_path: Path) -> None:
    """This test uses the full URL, but does not descend from the agent."""
    (tmp_path / "out").touch()
    waits = (
        CLIENT
        + f"""
os.mkfifo({str(tmp_path / "turn")!r})
open({str(tmp_path / "out")!r}, "w").write(CONFIG["url"] + "\\n")
open({str(tmp_path / "turn")!r}).read()          # until the test has tried
print(post(message("ping"), **mine)[0])
"""
    )
    with desk_on_http() as url, bench.start(
        "record", "--server", url, "--agent", "script", "--agent-option", script(waits), "--prompt", "Wait.",
    ) as referee:  # fmt: skip
        while not (text := (tmp_path / "out").read_text()).endswith("\n"):
            assert referee.poll() is None
        request = urllib.request.Request(
            text.strip(), b'{"jsonrpc":"2.0","id":1,"method":"ping"}', {"Content-Type": "application/json"}
        )
        try:
            status = urllib.request.urlopen(request, timeout=60).status
        except urllib.error.HTTPError as error:
            status = error.code
        (tmp_path / "turn").write_text("go")
        referee.communicate(timeout=60)
    assert status == 404
    (episode,) = bench.rows("select id, answer from episodes")
    assert episode["answer"] == "200"
    (flag,) = bench.rows("select * from flags")
    assert (flag["kind"], flag["episode"]) == ("foreign_peer", episode["id"])
