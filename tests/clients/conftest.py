"""Runs our clients as processes, on a real MCP server over stdio."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.support import DESK_SERVER
from tests.support.processes.forked import run_module, script_command

Calls = list[tuple[str, dict[str, Any]]]


@dataclass
class Told:
    """The result of a client: its exit code, its events, and the server's journal."""

    code: int
    events: list[dict[str, Any]]
    stderr: str
    journal: Calls

    @property
    def messages(self) -> list[dict[str, Any]]:
        return [event["message"] for event in self.events if event["type"] == "message"]

    @property
    def results(self) -> list[tuple[str, bool]]:
        """Text and `is_error` of each tool result."""
        return [(m["content"], m["is_error"]) for m in self.messages if m["role"] == "tool"]

    @property
    def final(self) -> dict[str, Any]:
        assert self.events, self.stderr
        assert self.events[-1]["type"] == "final", self.events
        return self.events[-1]

    @property
    def errors(self) -> list[tuple[str, str]]:
        return [(event["kind"], event["detail"]) for event in self.events if event["type"] == "error"]


@dataclass
class Desk:
    """Writes MCP configuration files for the server, and runs clients on it."""

    folder: Path
    server_env: dict[str, str] = field(default_factory=dict)

    @property
    def config(self) -> Path:
        journal = {"JOURNAL": str(self.folder / "journal"), **self.server_env}
        command, *args = script_command(DESK_SERVER)
        server = {"command": command, "args": args, "env": journal}
        return self.configure({"desk": server})

    def configure(self, servers: object) -> Path:
        path = self.folder / "mcp.json"
        path.write_text(json.dumps({"mcpServers": servers}))
        return path

    def start(
        self, client: str, *args: str, config: Path | None = None, env: dict[str, str] | None = None
    ) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [
                sys.executable,
                "-m",
                f"mcp_bench.clients.{client}",
                "--mcp-config",
                str(config or self.config),
                *args,
            ],
            env={"PATH": os.environ["PATH"], "HOME": str(self.folder), **(env or {})},
            cwd=self.folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def finish(self, process: subprocess.Popen[str], stdin: str = "") -> Told:
        with process:
            try:
                out, err = process.communicate(stdin, timeout=120)
            finally:
                process.kill()
        return self.told(process.returncode, out, err)

    def told(self, code: int, out: str, err: str) -> Told:
        events = [json.loads(line) for line in out.splitlines()]
        path = self.folder / "journal"
        lines = path.read_text().splitlines() if path.exists() else []
        journal = [(call["name"], call["arguments"]) for call in map(json.loads, lines)]
        return Told(code, events, err, journal)

    def run(
        self,
        client: str,
        *args: str,
        stdin: str = "",
        config: Path | None = None,
        env: dict[str, str] | None = None,
    ) -> Told:
        options = ["--mcp-config", str(config or self.config), *args]
        environ = {"PATH": os.environ["PATH"], "HOME": str(self.folder), **(env or {})}
        module = f"mcp_bench.clients.{client}"
        done = run_module(module, options, env=environ, cwd=self.folder, stdin=stdin, timeout=120)
        return self.told(done.returncode, done.stdout, done.stderr)


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


@pytest.fixture
def play(desk: Desk) -> Callable[..., Told]:
    """Run the oracle on calls given as (name, arguments)."""

    def run(calls: Calls, *args: str, answer: str = "done", prompt: str = "") -> Told:
        made = [{"name": n, "arguments": a} for n, a in calls]
        reference = {"calls": made, "answer": answer, "prompt": prompt}
        return desk.run("oracle", *args, stdin=json.dumps(reference))

    return run
