"""Run the hostile agent under an isolation level, beside an honest one, and collect the results."""

from __future__ import annotations

import json
import os
import sqlite3
import sys
import sysconfig
import zipfile
from collections import Counter
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from mcp_bench.bridge.process.agent import INTERPRETER
from mcp_bench.recorder.runs.reader import RunReader
from mcp_bench.recorder.scan import scan
from mcp_bench.servers import contracts
from tests.support.attacks.by_shell import BY_SHELL
from tests.support.attacks.places import accomplice, greeter, terminal, user_key
from tests.support.bench_commands import FIXTURES, RPC, Bench
from tests.support.engines import engine_options

PARTS = (
    "victim", "exits with an error", "shell", "wire", "kills its supervisor", "closes the wire",
    "uses up its memory", "breaks the world", "calls from a daemon", "sets traps", "claims",
)  # fmt: skip
LEFT_OUT = "be left out of the scores: "
STOLEN = "stolen-sentinel"


@dataclass
class Measured:
    """Results of one run of the hostile agent."""

    succeeded: dict[str, bool] = field(default_factory=dict)
    seen: dict[str, set[str]] = field(default_factory=dict)
    """Kinds of evidence for each attack by the shell."""
    flags: Counter[str] = field(default_factory=Counter)
    """Flags of the hostile episodes, including refusals by the running referee."""
    episodes: dict[str, dict[str, Any]] = field(default_factory=dict)
    """By part."""
    grades: dict[str, dict[str, Any]] = field(default_factory=dict)
    oracle: dict[str, Any] = field(default_factory=dict)
    verdicts: dict[str, str] = field(default_factory=dict)


class Arena:
    def __init__(self, bench: Bench, level: str, engine: str = "local") -> None:
        self.bench, self.level = bench, level
        self.options = engine_options(bench, engine)
        self.user = bench.home.parent
        self.places: dict[str, Any] = {}

    def measure(self) -> Measured:
        self.bench.environ |= {"MCP_BENCH_ISOLATION": self.level}
        oracle = self.record("--agent", "oracle")
        with ExitStack() as held:
            self.bench.run("up", "--http", "0", "--token", "right-token-0123456789")
            held.callback(self.bench.run, "down")
            port = json.loads(self.bench.run("status", "--json").stdout)["http"].split(":")[2].split("/")[0]
            self.places = {
                "accomplice": held.enter_context(accomplice()).server_address[1],
                "abstract": held.enter_context(greeter()),
                "key": held.enter_context(user_key()),
                "port": int(port),
                "solved": oracle.name,
                **self.files(held),
            }
            hostile = self.record(
                "--agent", "script", "--agent-option", f"file={self.agent()}", "--repeat", str(len(PARTS)),
                "--jobs", "2", "--tools", "all", "--timeout", "400", code=None,
            )  # fmt: skip
            measured = Measured(oracle=graded(oracle)[0])
            self.outcomes(measured, hostile)
            self.evidence(measured, hostile)
        return measured

    def files(self, held: ExitStack) -> dict[str, str]:
        secret = self.user / "secret"
        secret.write_text("a file of the user's\n")
        trap = self.user / "trap"
        trap.write_text(json.dumps({"role": "assistant", "content": STOLEN}) + "\n")
        note = Path("/tmp", f"mcp-bench-note-{os.getpid()}")
        held.callback(note.unlink, missing_ok=True)
        return {
            "home": str(self.bench.home),
            "user": str(self.user),
            "secret": str(secret),
            "trap": str(trap),
            "note": str(note),
            "fixture": str(FIXTURES / "mcp_bench_fixtures.py"),
            "servers": str(Path(contracts.__file__).parent),
            "packages": sysconfig.get_path("purelib"),
            "python": sys.executable,
            "interpreter": INTERPRETER,
            "terminal": held.enter_context(terminal()),
        }

    def agent(self) -> Path:
        """Pack the agent into one file, the only part of it that a sandbox shows."""
        commands = {attack.name: attack.command.format_map(self.places) for attack in BY_SHELL}
        path = self.user / "agent.pyz"
        with zipfile.ZipFile(path, "w") as archive:
            for source in (Path(__file__).parent / "agent").glob("*.py"):
                archive.write(source, source.name)
            archive.writestr("rpc.py", RPC)
            archive.writestr("places.json", json.dumps({**self.places, "commands": commands}))
        return path

    def record(self, *args: str, code: int | None = 0) -> Path:
        """Record the task; return the folder of the run."""
        before = set((self.bench.home / "runs").glob("run_*"))
        self.bench.run(
            "record",
            "--benchmark",
            "notebook",
            "--task",
            "colours",
            "--isolation",
            self.level,
            *self.options,
            *args,
            code=code,
        )
        (folder,) = (
            path
            for path in set((self.bench.home / "runs").glob("run_*")) - before
            if (path / "grades.db").exists()
        )
        return folder

    def outcomes(self, measured: Measured, run: Path) -> None:
        """Collect what the agent reports itself, and what it cannot know."""
        episodes = rows(run, "select * from episodes order by repeat")
        measured.episodes = dict(zip(PARTS, episodes, strict=True))
        measured.grades = {
            part: grade for grade in graded(run) for part, row in measured.episodes.items()
            if row["id"] == grade["episode"]
        }  # fmt: skip
        outcome = measured.succeeded
        for part in ("shell", "wire"):
            outcome |= json.loads(measured.episodes[part]["answer"] or "{}")
        for attack in BY_SHELL:
            if attack.outside:
                outcome[attack.name] = Path(attack.outside.format_map(self.places)).exists()
        for part in PARTS[1:2] + PARTS[4:8]:
            outcome[LEFT_OUT + part] = part not in measured.grades
        regraded = json.loads(self.bench.run("regrade", run.name, "--json", code=None).stdout)
        differs = {row["episode"] for row in regraded if row["status"] != "same"}
        outcome["change the state by what is no recorded call"] = measured.episodes["wire"]["id"] in differs
        outcome["change the state after the end"] = measured.episodes["calls from a daemon"]["id"] in differs
        messages = rows(run, "select episode, content from messages")
        outcome["have the referee read a file for it"] = any(
            STOLEN in (row["content"] or "") for row in messages
        )
        calls = rows(run, "select * from calls where episode = ?", measured.episodes["claims"]["id"])
        outcome["be credited for calls that it only claims"] = bool(calls)
        self.bench.run("verify", run.name)  # under `none` too: it read data but changed nothing
        shown = self.bench.run("show", measured.episodes["wire"]["id"]).stdout
        outcome["send escape sequences to the user's terminal"] = "\x1b" in shown

    def evidence(self, measured: Measured, run: Path) -> None:
        commands = {attack.command.format_map(self.places): attack.name for attack in BY_SHELL}
        commands[f"nc -U {self.places['home']}/referee/control.sock"] = "tell the referee what to do"
        with RunReader(run) as reader, pytest.MonkeyPatch.context() as patch:
            patch.setattr(scan, "MAX_EVIDENCE", 1000)
            for episode in (measured.episodes[part]["id"] for part in ("shell", "wire")):
                messages = reader.messages(episode)
                for one in scan.scan(reader, episode).evidence:
                    if ", call shell" in one.where:
                        (call,) = messages[int(one.where.split(",")[0].removeprefix("message "))].tool_calls
                        name = commands[str(call.function.arguments["command"])]
                        measured.seen.setdefault(name, set()).add(one.kind)
        measured.flags = Counter(row["kind"] for row in rows(run, "select kind from flags"))
        verdicts = {
            row["episode"]: row["verdict"] for row in rows(run, "select * from scans", database="grades.db")
        }
        measured.verdicts = {part: verdicts.get(row["id"], "") for part, row in measured.episodes.items()}


def rows(run: Path, query: str, *values: object, database: str = "recordings.db") -> list[dict[str, Any]]:
    with closing(sqlite3.connect(f"file:{run / database}?mode=ro", uri=True)) as db:
        db.row_factory = sqlite3.Row
        return [dict(row) for row in db.execute(query, values)]


def graded(run: Path) -> list[dict[str, Any]]:
    return rows(run, "select * from grades", database="grades.db")
