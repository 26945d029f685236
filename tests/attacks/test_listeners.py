"""No listener of ours serves an agent that belongs to somebody else, at any level of isolation.

An agent reaches loopback at every level, and at some a Unix socket of the same user. A new listener gets a row in
`ATTACKS`, with what an agent can know: addresses, paths, the protocol, wrong or stale secrets.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from mcp_bench.recorder.isolation_levels import LEVELS
from tests.support.bench_commands import RPC, Bench
from tests.support.levels import these_levels

pytestmark = pytest.mark.system

AGENT = """
import glob, http.client, re, socket
server = Server()
server.connect()

def get(port, path, **headers):
    wire = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello, "model": "m"})
    types = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
    wire.request("POST", path, body, {**types, **headers})
    return wire.getresponse().status

def served(port, *paths):
    guess, bearer = "x" * 43, {"Authorization": "Bearer " + "x" * 43}
    tries = [get(port, path) for path in paths] + [get(port, path, **bearer) for path in paths]
    return any(status < 400 for status in tries + [get(port, f"/{guess}{path}") for path in paths])

def said(path, message):
    with socket.socket(socket.AF_UNIX) as wire:
        wire.settimeout(60)
        wire.connect(path)
        wire.sendall(message)
        return wire.recv(4096)

def joined():
    hello = {"protocol": 2, "benchmark": "notebook"}
    answers = [said(f"{HOME}/referee/entry.sock", json.dumps({**hello, **more}).encode() + b"\\n")
        for more in ({}, {"secret": ""}, {"secret": "guess"}, {"protocol": 1})]
    return any(b'"ok"' in answer for answer in answers)

def commanded():
    return b'"pid"' in said(f"{HOME}/referee/control.sock", b'{"secret": "", "command": "status"}\\n')

def secret_in_sight():
    seen = b""
    for place in glob.glob("/proc/[0-9]*/cmdline") + glob.glob("/proc/[0-9]*/environ"):
        if f"/{os.getpid()}/" not in place and not place.startswith("/proc/self"):
            try:
                seen += open(place, "rb").read()
            except OSError:
                pass
    return any(secret.encode() in seen for secret in SECRETS[::-1])

ATTACKS = {
    "up": joined,
    "up, control": commanded,
    "up --http": lambda: served(PORTS["up"], "/notebook/mcp", "/notebook/mcp/x"),
    "serve --http": lambda: served(PORTS["serve"], "/mcp", "/mcp/x"),
    "experience": lambda: served(PORTS["experience"], "/mcp", "/"),
    "proxy --http": lambda: served(PORTS["proxy"], "/v1", "/mcp", "/"),
    "model proxy": lambda: served(PORTS["capture"], "/v1/models", PATHS["capture"]),
    "view": lambda: served(PORTS["view"], "/", "/open?code=x", "/login", "/runs/x/stop"),
    "policy": lambda: served(PORTS["policy"], "/v1/models", "/ep_x/v1/models", "/ep_x/v1/responses", "/health"),
    "serving engine": lambda: served(PORTS["engine"], "/v1/models", "/invocations", "/health"),
    "a secret in sight": secret_in_sight,
}
results = {}
for name, attack in ATTACKS.items():
    try:
        results[name] = bool(attack())
    except OSError:
        results[name] = False
server.call("write", key="one", value="uno-sentinel")
print(json.dumps(results))
"""
LISTENERS = (
    "up", "up, control", "up --http", "serve --http", "proxy --http", "model proxy", "serving engine",
    "policy",
    "view", "experience", "a secret in sight",
)  # fmt: skip
HELPERS = """
import os, subprocess, sys
from contextlib import ExitStack
from pathlib import Path
import anyio, json
from mcp_bench.bridge.http.access import AccessRules
from mcp_bench.bridge.http.listen import bind, listen
from mcp_bench.bridge.model_proxy.capture import ModelCapture
from mcp_bench.recorder.runs.run_folder import RunFolder
from mcp_bench.trainer.serving.require_key import RequireKey
from starlette.responses import PlainTextResponse
from tests.support.recorded import begin, planned, run_info

async def main():
    upstream, engine, policy = (bind("127.0.0.1", 0) for _ in range(3))
    place = policy.getsockname()[1]
    guarded = AccessRules(PlainTextResponse("served"), "127.0.0.1", place, token=os.environ["POLICY_SECRET"])
    answer = PlainTextResponse("served")
    sleeper = subprocess.Popen(["sleep", "3600"])
    with RunFolder.create(run_info(), root=Path(sys.argv[1])) as run:
        url = f"http://127.0.0.1:{upstream.getsockname()[1]}/v1"
        with ModelCapture(begin(run, planned()), url, run.recording) as capture:
            capture.root = sleeper.pid
            async with anyio.create_task_group() as tasks:
                await tasks.start(lambda task_status: listen(answer, upstream, task_status=task_status))
                await tasks.start(lambda task_status: listen(RequireKey(answer), engine, task_status=task_status))
                await tasks.start(lambda task_status: listen(guarded, policy, task_status=task_status))
                await tasks.start(capture.serve)
                print(json.dumps([capture.base_url, engine.getsockname()[1], place, url]), flush=True)
                await anyio.to_thread.run_sync(sys.stdin.read)
                tasks.cancel_scope.cancel()
    sleeper.kill()
    sleeper.wait()

anyio.run(main)
"""
MEASURED: dict[str, dict[str, bool]] = {}


@these_levels(*LEVELS, full=("bwrap", "landlock", "uid"))  # the listeners do not know the level
@pytest.mark.parametrize("listener", LISTENERS)
def test_a_listener_refuses_a_foreign_agent(bench: Bench, tmp_path: Path, level: str, listener: str) -> None:
    if level not in MEASURED:
        MEASURED[level] = measure(bench, tmp_path, level)
    assert set(MEASURED[level]) == set(LISTENERS)
    as_root = os.geteuid() == 0 and level == "none"  # root reads every environment
    assert MEASURED[level][listener] == (listener == "a secret in sight" and as_root)


def measure(bench: Bench, tmp_path: Path, level: str) -> dict[str, bool]:
    """Start every listener, and return which of them served the agent."""
    with ExitStack() as held:
        bench.run("up", "--http", "0")
        held.callback(bench.run, "down")
        urls = {"up": json.loads(bench.run("status", "--json").stdout)["http"]}
        other = held.enter_context(running(bench, [sys.executable, "-c", HELPERS, str(tmp_path)], "other"))
        capture, engine, policy, upstream = json.loads(other)
        for name, command in {
            "serve": bench.command("serve", "notebook", "--http", "0"),
            "proxy": bench.command("proxy", "--http", "0", upstream),
            "experience": bench.command("experience", "--http", "0"),
            "view": bench.command("view", "--no-browser", "--port", "0"),
        }.items():
            urls[name] = held.enter_context(running(bench, command, name))
        ports = {
            name: int(url.split(":")[2].split("/")[0]) for name, url in (*urls.items(), ("capture", capture))
        }
        secrets = [
            (bench.home / "http-token").read_text(),
            (bench.home / "referee/secret").read_text(),
            "engine-key-0",
            "policy-secret-0",
        ]
        places: dict[str, Any] = {
            "HOME": str(bench.home), "PORTS": {**ports, "engine": engine, "policy": policy},
            "PATHS": {"capture": "/" + capture.split("/", 3)[3]},
            "SECRETS": secrets,
        }  # fmt: skip
        agent = tmp_path / f"{level}.py"
        agent.write_text(RPC + "".join(f"{name} = {value!r}\n" for name, value in places.items()) + AGENT)
        bench.run(
            "record", "--agent", "script", "--agent-option", f"file={agent}", "--benchmark", "notebook",
            "--task", "colours", "--isolation", level, "--json",
        )  # fmt: skip
        (answer,) = (row["answer"] for row in answers(bench.home) if row["answer"])
    found: dict[str, bool] = json.loads(answer)
    return found


def answers(home: Path) -> list[dict[str, Any]]:
    """Return the episodes of the recorded run; the listeners have runs of their own."""
    import sqlite3
    from contextlib import closing

    rows = []
    for path in (home / "runs").glob("run_*/recordings.db"):
        with closing(sqlite3.connect(path)) as db:
            db.row_factory = sqlite3.Row
            rows += [dict(row) for row in db.execute("select answer from episodes")]
    return rows


@contextmanager
def running(bench: Bench, command: list[str], name: str) -> Iterator[str]:
    """Run a listener; the context is the URL or the line that it prints."""
    from tests.support import ROOT

    environ = {
        **bench.environment(),
        "MCP_BENCH_ENGINE_KEY": "engine-key-0",
        "POLICY_SECRET": "policy-secret-0",
    }
    environ["PYTHONPATH"] += f"{os.pathsep}{ROOT}"
    pipe = subprocess.PIPE
    stream = "stderr" if name == "serve" else "stdout"
    with subprocess.Popen(
        command, env=environ, stdin=pipe, text=True, cwd=bench.home.parent, **{stream: pipe}
    ) as process:
        try:
            for line in getattr(process, stream):
                if name == "serve" and " at http://" in line:
                    yield line.split(" at ")[1].split(",")[0]
                    break
                if name == "view":
                    yield line.split(" at ")[1].split(" until ")[0]
                    break
                if name != "serve":
                    yield line.strip()
                    break
        finally:
            process.terminate()
