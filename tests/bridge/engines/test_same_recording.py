"""Whatever engine records a run: agents get the same bytes, and the rows are the same."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.bench_commands import RPC, Bench
from tests.support.engines import OPTIONS, engine_options

pytestmark = pytest.mark.system

TALK = """
log = open({folder!r} + "/" + CONFIG["prompt"].split()[-1].strip("."), "wb")

class Logged(Server):
    def send(self, line):
        log.write(b"> " + line + b"\\n")
        super().send(line)

    def receive(self):
        line = super().receive()
        log.write(b"< " + line)
        return line

server = Logged()
server.connect()
server.send(b'{{"jsonrpc": "2.0", "id": 3.50, "method": "tools/call", "params": {{"name" : "write",'
            b' "arguments": {{"key": "sky", "value": "\\\\u00e9\\xc3\\xa9", "key": "grass"}}}}}}')
server.receive()
server.send(b"[no json \\xff")
server.receive()
server.call("write", key="colour", value=7)      # against the schema
server.call("no-such-tool")
server.ask("no/such-method")
server.call("write", key="one", value="uno")
log.close()
print("done")
"""
SAME = {
    "runs": "benchmark, benchmark_version, agent, agent_version, isolation, home, tools, graded",
    "episodes": "split, domain, prompt, seed, attempt, termination, invalid, exit_code, answer",
    "frames": "connection, direction, kind, method, rpc_id, typeof(body) as type, cast(body as blob) as body",
    "calls": "connection, rpc_id, tool, arguments, execution, outcome, response_frame is null as unanswered",
    "messages": "position, role, content, reasoning, tool_calls, tool_call_id, name, is_error",
    "flags": "kind, detail",
}
"""Columns without times, ids, keys and hashes."""


def recorded(bench: Bench) -> dict[str, list[dict[str, Any]]]:
    """Return the rows of a run, those of one task after those of another."""
    found = {"runs": bench.rows(f"select {SAME['runs']} from runs")}
    for table in ("episodes", "frames", "calls", "messages", "flags"):
        columns = ", ".join(f"r.{part}" if "(" not in part else part for part in SAME[table].split(", "))
        key, order = ("id", "1") if table == "episodes" else ("episode", "r.rowid")
        if table == "messages":
            order = "r.position"
        query = f"select e.task, {columns} from {table} r join episodes e on e.id = r.{key}"
        found[table] = bench.rows(f"{query} order by e.task, {order}")
    grades = bench.rows("select episode, partial, strict, grader_version from grades", database="grades.db")
    tasks = {row["id"]: row["task"] for row in bench.rows("select id, task from episodes")}
    found["grades"] = sorted(
        ({**row, "episode": tasks[row["episode"]]} for row in grades), key=lambda row: str(row["episode"])
    )
    return found


def test_engines_record_the_same_rows_and_bytes(tmp_path: Path) -> None:
    rows, logs = {}, {}
    for engine in OPTIONS:
        folder = tmp_path / engine
        folder.mkdir()
        (folder / "agent.py").write_text(RPC + TALK.format(folder=str(folder)))
        one = Bench(folder / "home")
        one.run(
            "record", "--agent", "script", "--agent-option", f"file={folder / 'agent.py'}",
            "--benchmark", "notebook", "--jobs", "2", *engine_options(one, engine), code=None,
        )  # fmt: skip
        rows[engine] = recorded(one)
        logs[engine] = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
        del logs[engine]["agent.py"]
        assert json.loads(one.run("verify", "--json").stdout)[0]["verdict"] == "verified"
        sent = b"".join(
            (b"> " if row["direction"] == "client" else b"< ") + row["body"] for row in rows[engine]["frames"]
        )
        assert sorted(sent.splitlines()) == sorted(b"".join(logs[engine].values()).splitlines())
    assert len(rows["local"]["episodes"]) == len(logs["local"]) == 2
    outcomes = [row["outcome"] for row in rows["local"]["calls"]]
    assert "ok" in outcomes and "tool_error" in outcomes
    for engine in OPTIONS:
        for table, expected in rows["local"].items():
            assert rows[engine][table] == expected, f"{table} of {engine}"
        assert logs[engine] == logs["local"], engine
