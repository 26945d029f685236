"""After `kill -9` of `mcp-bench proxy` at a random moment, the recording has all that its client received."""

from __future__ import annotations

import json
import random
import selectors
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing
from typing import Any

import pytest

from mcp_bench.recorder.runs.reader import RunReader
from tests.support import DESK_SERVER

pytestmark = pytest.mark.system

DESK = DESK_SERVER
SECONDS = 300.0
HELLO = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "busy", "version": "1"}}


def lines(chance: random.Random) -> bytes:
    """Return the requests of a session, more than are ever answered."""
    messages: list[dict[str, Any]] = [
        {"jsonrpc": "2.0", "id": "hello", "method": "initialize", "params": HELLO},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
    ]
    for number in range(2000):
        add = {"name": "add", "arguments": {"a": chance.randrange(9), "b": chance.choice([number, "x"])}}
        messages.append({"jsonrpc": "2.0", "id": f"call-{number}", "method": "tools/call", "params": add})
    return b"".join(json.dumps(message).encode() + b"\n" for message in messages)


def killed(bench: Any, chance: random.Random) -> list[str]:
    """Kill a proxy after some responses and a random delay. Return what its client received."""
    pipe = subprocess.PIPE
    with subprocess.Popen(
        bench.command("proxy", sys.executable, DESK), env=bench.environment(), cwd=bench.home.parent,
        stdin=pipe, stdout=pipe, stderr=pipe,
    ) as proxy:  # fmt: skip
        assert proxy.stdin is not None and proxy.stdout is not None
        received = bytearray()

        def send() -> None:
            try:
                proxy.stdin.write(lines(chance))  # type: ignore[union-attr]
                proxy.stdin.flush()  # type: ignore[union-attr]
            except BrokenPipeError:
                pass

        sender = threading.Thread(target=send)
        sender.start()
        try:
            wanted, delay = chance.choice([1, 30, 200, 600]) + chance.randrange(9), chance.uniform(0, 0.003)
            with selectors.DefaultSelector() as selector:
                selector.register(proxy.stdout, selectors.EVENT_READ)
                while received.count(b"\n") < wanted:
                    assert selector.select(SECONDS), "no answer"
                    chunk = proxy.stdout.read1(1 << 16)  # type: ignore[attr-defined]
                    assert chunk
                    received += chunk
                while delay > 0 and selector.select(delay):
                    received += proxy.stdout.read1(1 << 16)  # type: ignore[attr-defined]
                    delay -= 0.0005
        finally:
            proxy.kill()
            sender.join(SECONDS)
            proxy.stdin.close()
        # until the server has ended too: it holds stderr open
        received += proxy.stdout.read()
        assert proxy.stderr is not None
        proxy.stderr.read()
    return [line.decode() for line in bytes(received).splitlines(keepends=True) if line.endswith(b"\n")]


def kill_at(bench: Any, seed: int, count: int) -> str:
    chance = random.Random(seed)
    compared = 0
    for _ in range(count):
        known = set((bench.home / "runs").iterdir()) if (bench.home / "runs").exists() else set()
        received = killed(bench, chance)
        (run,) = set((bench.home / "runs").iterdir()) - known
        RunReader(run).close()  # as any command does, before SQLite's own tools
        with closing(sqlite3.connect(run / "recordings.db")) as db:
            assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
            assert db.execute("PRAGMA foreign_key_check").fetchall() == []
            stored = {body for (body,) in db.execute("SELECT body FROM frames WHERE direction = 'server'")}
            assert [line for line in received if line not in stored] == []
            assert db.execute("SELECT ended_us FROM episodes").fetchall() == [(None,)]
        compared += len(received)
    return f"{count} kills of the proxy, {compared} responses compared"


def test_a_killed_proxy_has_stored_all_that_it_sent(bench: Any) -> None:
    print(kill_at(bench, 1, 2))


@pytest.mark.full
@pytest.mark.parametrize("seed", range(200, 210))
def test_200_kills_of_the_proxy(bench: Any, seed: int) -> None:
    print(kill_at(bench, seed, 20))
