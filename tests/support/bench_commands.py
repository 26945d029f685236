"""Run `mcp-bench` as a subprocess, with the fixture package installed."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar

from mcp_bench.recorder.runs.left_behind import take_in_left
from tests.support.processes.forked import module_command, run_module

ROOT_MODULE = "mcp_bench.bridge.cli.root"
FIXTURES = Path(__file__).with_name("fixture_dist")


class Started(subprocess.Popen[str]):
    """A command that goes on: it is killed when the test that started it fails, which would wait for it."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self.kill()
        super().__exit__(kind, error, trace)


@dataclass
class Bench:
    """The command line with a temporary home."""

    home: Path
    environ: dict[str, str] = field(default_factory=dict)
    forked: ClassVar[bool] = True
    """Whether `run` may use a fork of a warm interpreter."""

    def command(self, *args: str | Path) -> list[str]:
        return [sys.executable, "-m", ROOT_MODULE, *map(str, args)]

    def warm_command(self, *args: str | Path) -> list[str]:
        """Return a command that starts quickly: see `tests.support.processes.forked` for what differs from `command`."""
        return [*module_command(ROOT_MODULE, *map(str, args))] if self.forked else self.command(*args)

    def environment(self) -> dict[str, str]:
        base = {"PATH": os.environ["PATH"], "HOME": str(self.home.parent), "PYTHONPATH": str(FIXTURES)}
        ours = {"MCP_BENCH_HOME": str(self.home), "MCP_BENCH_RETRIES": "0", "MCP_BENCH_ISOLATION": "none"}
        shared = {name: os.environ[name] for name in ("MCP_BENCH_CACHE",) if name in os.environ}
        return {**base, **ours, **shared, **self.environ}

    def start(self, *args: str | Path, warm: bool = False) -> Started:
        """Start a command; a warm one starts quickly, but its process id is not that of the command."""
        pipe = subprocess.PIPE
        return Started(
            self.warm_command(*args) if warm else self.command(*args),
            env=self.environment(),
            stdout=pipe,
            stderr=pipe,
            text=True,
            cwd=self.home.parent,
        )

    def run(
        self, *args: str | Path, code: int | None = 0, timeout: float = 600
    ) -> subprocess.CompletedProcess[str]:
        """Run a command to its end, `timeout` seconds at most, and check its exit code (None: any)."""
        if self.forked:
            done = run_module(
                ROOT_MODULE, list(map(str, args)), env=self.environment(), cwd=self.home.parent,
                timeout=timeout,
            )  # fmt: skip
        else:
            done = subprocess.run(
                self.command(*args),
                env=self.environment(),
                cwd=self.home.parent,
                capture_output=True,
                text=True,
                timeout=timeout,
            )
        assert code is None or done.returncode == code, (done.returncode, done.stdout, done.stderr)
        return done

    @property
    def run_folder(self) -> Path:
        """The only recorded run."""
        (folder,) = (self.home / "runs").iterdir()
        return folder

    def rows(self, query: str, *values: object, database: str = "recordings.db") -> list[dict[str, Any]]:
        """Query a run's database with plain SQLite, after opening the run as any command does."""
        path = self.run_folder / database
        take_in_left(self.run_folder)
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as db:
            db.row_factory = sqlite3.Row
            return [dict(row) for row in db.execute(query, values)]

    def grades(self) -> list[dict[str, Any]]:
        return self.rows("select * from grades", database="grades.db")

    def report(self) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = json.loads(self.run("report", "--json").stdout)
        return rows


RPC = '''
import json, os, subprocess, sys
CONFIG = json.load(open(os.environ["CONFIG"]))

class Server:
    """A minimal MCP client over stdio, which can send any bytes."""

    def __init__(self):
        self.process = subprocess.Popen(CONFIG["command"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.last = 0

    def send(self, line):
        try:
            self.process.stdin.write(line + b"\\n")
            self.process.stdin.flush()
        except BrokenPipeError:  # refused: there will be no answer
            pass

    def receive(self):
        return self.process.stdout.readline()

    def ask(self, method, params=None):
        self.last += 1
        message = {"jsonrpc": "2.0", "id": self.last, "method": method, "params": params or {}}
        self.send(json.dumps(message).encode())
        line = self.receive()
        return json.loads(line) if line else None

    def connect(self):
        client = {"name": "script", "version": "1"}
        hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client}
        if self.ask("initialize", hello) is None:  # refused: no more messages are read
            return None
        self.send(b'{"jsonrpc":"2.0","method":"notifications/initialized"}')
        return self.ask("tools/list")

    def call(self, tool, **arguments):
        return self.ask("tools/call", {"name": tool, "arguments": arguments})
'''
