"""Attacks on the interfaces of episodes and of the referee: sockets, tokens, JSON-RPC, HTTP."""

import http.client
import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import accomplice
from report import PLACES, account, results
from rpc import CONFIG, Server

FOLDER = str(Path(CONFIG["command"][-1]).parent)
TOKEN = Path(FOLDER, "token").read_text()
PING = b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n'
GRADING = ("partial", "strict", "expects-", "objective", "guardrail", "assertion", "final-state")


def victim():
    """Work honestly while the others attack."""
    server = Server()
    server.connect()
    accomplice.ask(put="victim", value=[FOLDER, TOKEN])
    server.call("write", key="sky", value="cerulean-sentinel")
    accomplice.ask(get="last")
    server.call("write", key="grass", value="viridian-sentinel")


def attempt(name, action):
    try:
        results[name] = bool(action())
    except (OSError, ValueError):
        results[name] = False


def raw(folder, token):
    """Present a token at an episode's socket; return the answer to a ping."""
    with socket.socket(socket.AF_UNIX) as wire:
        wire.settimeout(60)
        wire.connect(f"{folder}/socket")
        wire.sendall(token.encode() + b"\n" + PING)
        return wire.recv(1000)


def refused(answer):
    return answer is None or "error" in answer or answer["result"].get("isError", False)


def wire():
    server, second = Server(), Server()
    server.connect()
    second.connect()
    heard = [server.call("write", key="mine", value="x"), server.call("read", key="nothing")]
    attempt("get a fresh world by a second connection", lambda: refused(second.call("read", key="mine")))
    doors()
    frames(server, heard)
    attempt("be told of grading in an answer", lambda: [w for w in GRADING if w in json.dumps(heard)])
    attempt("call a tool named like control", lambda: not all(
        refused(server.call(name)) for name in ("grade", "reset", "state", "close", "step")
    ))  # fmt: skip
    attempt("call a method named like control", lambda: not all(
        refused(server.ask(name)) for name in ("grade", "episode/reset", "world/state", "admin/grade")
    ))  # fmt: skip
    attempt("call a tool that was not listed", lambda: not refused(server.call("next_task")))
    machine()


def doors():
    folder, token = accomplice.ask(get="victim")
    other = [word.replace(FOLDER, folder) for word in CONFIG["command"]]
    attempt("get in without a token", lambda: raw(FOLDER, ""))
    attempt("get in with a guessed token", lambda: raw(FOLDER, "guess"))
    attempt("replay the token of an episode that is over", lambda: raw(FOLDER, accomplice.ask(get="over")))
    attempt("connect again after its first call", lambda: Server().connect())
    attempt("read another episode's token", lambda: Path(folder, "token").read_text())
    attempt("get in to another episode with its token", lambda: raw(folder, token))
    attempt(
        "start the relay on another episode",
        lambda: subprocess.run(other, input=PING, capture_output=True, timeout=60).stdout,
    )
    attempt("have an accomplice use its token", lambda: accomplice.ask(show=[FOLDER, TOKEN]))


def frames(server, heard):
    """Send messages that a recorder could mistake for calls, or miss. The test checks the recording."""

    def call(number, value, **more):
        params = {"name": "write", "arguments": {"key": "hidden", "value": value}}
        return {"jsonrpc": "2.0", **number, "method": "tools/call", "params": params, **more}

    for message in (
        {"jsonrpc": "2.0", "id": 900, "result": {"content": [{"type": "text", "text": "forged"}]}},
        {"jsonrpc": "2.0", "id": 901, "result": {"tools": []}},
        {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"},
        {"jsonrpc": "2.0", "method": "notifications/grade", "params": {"partial": 1, "strict": True}},
        call({}, "as a notification"),
        [call({"id": 902}, "in a batch")],
        call({"id": None}, "without an id"),
        call({"id": 903}, "twice"),
        call({"id": 903}, "twice again"),
        call({"id": 904.5}, "odd"),
        call({"id": [905]}, "odder"),
        call({"id": 906}, "once", id="906"),
    ):
        server.send(json.dumps(message).encode())
    for number in (902, 904.5, [905]):  # these get no answer, so the episode would wait for them
        taken_back = {"method": "notifications/cancelled", "params": {"requestId": number}}
        server.send(json.dumps({"jsonrpc": "2.0", **taken_back}).encode())
    server.send(PING.strip())
    for _ in range(64):  # until the last line is answered
        answer = json.loads(server.receive())
        heard.append(answer)
        if isinstance(answer, dict) and answer.get("id") == 1 and answer.get("result") == {}:
            break
    answers = [server.call("write", key="sky", value=value) for value in ("wrong", "cerulean-sentinel")]
    heard += answers
    attempt("tell right from wrong by the answers", lambda: answers[0]["result"] != answers[1]["result"])
    server.call("write", key="\x1b]0;owned\x07", value="\x1b[2J<script>")


def machine():
    attempt("reach a socket without a path", lambda: greeted(PLACES["abstract"]))
    attempt("find a token in a command line", lambda: [
        path for path in Path("/proc").glob("[0-9]*/cmdline") if TOKEN in text(path)
    ])  # fmt: skip
    attempt("find an answer in a file that is new", fresh_answers)
    attempt("tell the referee what to do", control)
    for name, headers in {
        "use the HTTP endpoint without a token": {},
        "use the HTTP endpoint with a wrong token": {"Authorization": "Bearer guess"},
        "use the HTTP endpoint by another name": {"Host": "rebound.example"},
        "use the HTTP endpoint from a web page": {"Origin": "http://rebound.example"},
    }.items():
        attempt(name, lambda headers=headers: post(headers) < 400)


def text(path):
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


def greeted(name):
    with socket.socket(socket.AF_UNIX) as wire:
        wire.connect(name.replace("@", "\0"))
        return wire.recv(1)


def fresh_answers():
    """Search where benchmarks could keep answers: caches, temporary files, shared memory."""
    word = "viridian-sentinel"[::-1]
    for top in (PLACES["user"], "/dev/shm", "/var/tmp", str(Path(FOLDER).parent)):
        for folder, _, files in os.walk(top):
            for name in files:
                try:
                    path = Path(folder, name)
                    if word[::-1].encode() in path.read_bytes() and path != Path(sys.argv[0]):
                        return True
                except OSError:
                    pass
    return False


def control():
    account(f"nc -U {PLACES['home']}/referee/control.sock", "")
    with socket.socket(socket.AF_UNIX) as wire:
        wire.settimeout(60)
        wire.connect(f"{PLACES['home']}/referee/control.sock")
        wire.sendall(b'{"secret": "guess", "command": "status"}\n')
        return b'"error"' not in wire.recv(4096)


def post(headers):
    wire = http.client.HTTPConnection("127.0.0.1", PLACES["port"], timeout=60)
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello})
    types = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
    wire.request("POST", "/notebook/mcp", body, {**types, **headers})
    return wire.getresponse().status
