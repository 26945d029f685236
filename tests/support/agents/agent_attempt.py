"""One launch of a real agent on a real MCP server, prepared by its plugin."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from time import monotonic
from typing import Any

from mcp_bench.plugins.acp.agent import Acp
from mcp_bench.plugins.contracts import (
    Agent,
    AgentOutput,
    Installation,
    LaunchRequest,
    McpServer,
    Tools,
    Transcript,
)
from tests.support import DESK_SERVER
from tests.support.agents.node_clis import node_environ
from tests.support.desk.desk_script import PROMPT
from tests.support.processes.forked import script_command

SECONDS = 240

_found: dict[tuple[object, ...], Installation] = {}
"""Each program is asked for its version once: some take three seconds to answer."""


def installation(agent: Agent, environ: Mapping[str, str]) -> Installation:
    """Find an agent's program, or return what was found for such an agent before."""
    key = (type(agent), getattr(agent, "command", agent.name), environ["PATH"])
    if key not in _found:
        _found[key] = agent.find(environ)
    return _found[key]


@dataclass
class Attempt:
    """One launch of an agent, in private folders."""

    folder: Path
    agent: Agent
    environ: dict[str, str] = field(default_factory=dict)
    """The user's environment, as the plugin sees it."""
    prompt: str = PROMPT
    server: McpServer = field(init=False)

    def __post_init__(self) -> None:
        for path in (self.home, self.workdir, self.tmp):
            path.mkdir(parents=True)
        self.environ = {**node_environ(self.folder), **self.environ}
        command = ("/usr/bin/env", f"JOURNAL={self.journal_path}", *script_command(DESK_SERVER))
        arguments = {"add": ("a", "b"), "note": ("text", "colour")}
        self.server = McpServer("desk", command, ("add", "note", "desk.tidy"), arguments=arguments)

    @property
    def home(self) -> Path:
        return self.folder / "home"

    @property
    def workdir(self) -> Path:
        return self.folder / "work"

    @property
    def tmp(self) -> Path:
        return self.folder / "tmp"

    @property
    def journal_path(self) -> Path:
        return self.folder / "journal"

    @property
    def journal(self) -> list[tuple[str, dict[str, Any]]]:
        """The calls that the server received. Consecutive calls of one tool are sorted: agents make the calls of
        one answer in parallel."""
        lines = self.journal_path.read_text().splitlines() if self.journal_path.exists() else []
        calls = [(call["name"], call["arguments"]) for call in map(json.loads, lines)]
        return [call for _, row in groupby(calls, key=itemgetter(0)) for call in sorted(row, key=str)]

    @property
    def output(self) -> AgentOutput:
        return AgentOutput(self.folder / "stdout", self.folder / "stderr", self.home, self.workdir, None)

    def start(
        self,
        base_url: str | None,
        *,
        model: str | None = "scripted",
        tools: Tools = "mcp-only",
        options: Mapping[str, str] | None = None,
        spoil: Callable[[Path], None] = lambda home: None,
    ) -> subprocess.Popen[bytes]:
        """Launch it in a new process group. `spoil` can change the files that the plugin has written."""
        agent = self.agent.for_options(options or {}) if type(self.agent) is Acp else self.agent
        request = LaunchRequest(
            prompt=self.prompt,
            home=self.home,
            workdir=self.workdir,
            server=self.server,
            installation=installation(agent, self.environ),
            model=model,
            base_url=base_url,
            tools=tools,
            options=options or {},
            environ=self.environ,
        )
        launch = agent.prepare(request)
        spoil(self.home)
        (self.folder / "stdin").write_bytes(launch.stdin)
        with (
            (self.folder / "stdin").open("rb") as stdin,
            self.output.stdout.open("wb") as out,
            self.output.stderr.open("wb") as err,
        ):
            return subprocess.Popen(
                launch.argv,
                env={**node_environ(self.home), "TMPDIR": str(self.tmp), **launch.env},
                cwd=self.workdir,
                stdin=stdin,
                stdout=out,
                stderr=err,
                start_new_session=True,
            )

    def wait_until(self, process: subprocess.Popen[bytes], reached: Callable[[Attempt], bool]) -> None:
        """Wait until `reached` holds, the process ends, or a minute has passed."""
        deadline = monotonic() + 60
        while process.poll() is None and not reached(self) and monotonic() < deadline:
            with suppress(subprocess.TimeoutExpired):
                process.wait(0.2)

    def finish(self, process: subprocess.Popen[bytes], *, stop: bool = False) -> Transcript:
        """Wait for it, or stop it; kill its process group and read the transcript."""
        try:
            if stop:
                process.terminate()
            process.wait(SECONDS)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        return self.agent.read(self.output, self.server)

    def run(self, base_url: str | None, **settings: Any) -> Transcript:
        return self.finish(self.start(base_url, **settings))
