"""Canaries: present during a run, hidden from agents, removed afterwards, the same after a resume."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from mcp_bench.bridge.isolation.canaries import (
    ANSWERS,
    BACKUP,
    FILES,
    VARIABLE,
    canaries_in_place,
    environment,
)
from mcp_bench.recorder.runs.parts import resume_run
from mcp_bench.recorder.runs.run_folder import RunFolder
from tests.support.recorded import planned, run_info
from tests.support.requirements import needs

pytestmark = pytest.mark.system

PLACES = {ANSWERS, BACKUP, VARIABLE}

PRYING = """
import glob
server = Server()
server.connect()
server.call("write", key="one", value="uno-sentinel")
server.call("write", key="two", value="due-sentinel")
found = []
for path in glob.glob("/proc/[0-9]*/environ"):
    try:
        found += [word for word in open(path, "rb").read().split(b"\\0") if word.startswith(b"MCP_BENCH_ANSWER")]
    except OSError:
        pass
print(" ".join(word.decode()[::-1] for word in found))  # also those of other runs on this machine
"""
QUIET = """
server = Server()
server.connect()
server.call("write", key="one", value="uno-sentinel")
server.call("write", key="two", value="due-sentinel")
print(sorted(name for name in os.environ if "BENCH" in name))
"""


def test_canary_files_of_a_run(bench_home: Path) -> None:
    with RunFolder.create(run_info(planned("a"), planned("b"))) as folder:
        with canaries_in_place(folder):
            words = {canary.place: canary.value for canary in folder.grades.canaries()}
            assert set(words) == PLACES and len(set(words.values())) == 3
            for name in FILES:
                assert (folder.path / name).stat().st_mode & 0o777 == 0o600
            answers = json.loads((folder.path / ANSWERS).read_text())
            assert words[ANSWERS] in answers["key"] and set(answers["tasks"]) == {"a", "b"}
            with closing(sqlite3.connect(folder.path / BACKUP)) as db:
                rows = db.execute("SELECT task, expected FROM grades").fetchall()
            assert [task for task, _ in rows] == ["a", "b"]
            assert all(words[BACKUP] in expected for _, expected in rows)
            assert environment() == {VARIABLE: words[VARIABLE]}
        assert not [name for name in FILES if (folder.path / name).exists()]
        assert VARIABLE not in os.environ and environment() == {}
    (folder.path / ANSWERS).write_text("of a referee that was killed")
    with resume_run(folder.id) as again, canaries_in_place(again):
        assert {canary.place: canary.value for canary in again.grades.canaries()} == words
        assert words[ANSWERS] in (folder.path / ANSWERS).read_text()
    stored = (folder.path / "recordings.db").read_bytes()
    assert not [word for word in words.values() if word.encode() in stored], "the recording may be given away"


@needs("root", os.geteuid() == 0, "the trusted processes are closed to all but root")
def test_the_canary_variable(bench, script: Callable[[str], str]) -> None:
    done = bench.run(
        "record", "--agent", "script", "--agent-option", script(PRYING), "--benchmark", "notebook",
        "--task", "numbers", "--isolation", "none", "--json",
    )  # fmt: skip
    assert json.loads(done.stdout)["tainted"] == 1
    assert "1 tainted episode: the agent looked for its grade. See: mcp-bench show ep_" in done.stderr
    (scan,) = bench.rows("select * from scans", database="grades.db")
    (evidence,) = json.loads(scan["evidence"])
    assert (scan["verdict"], evidence["where"]) == ("tainted", "the answer")
    assert evidence["what"] == f"the canary in {VARIABLE}, reversed"


def test_no_agent_gets_the_canary_variable(bench, script: Callable[[str], str]) -> None:
    bench.run(
        "record", "--agent", "script", "--agent-option", script(QUIET), "--benchmark", "notebook",
        "--task", "numbers", "--isolation", "none",
    )  # fmt: skip
    (episode,) = bench.rows("select answer from episodes")
    assert episode["answer"] == "[]"
    (scan,) = bench.rows("select * from scans", database="grades.db")
    assert (scan["verdict"], scan["evidence"]) == ("clean", "[]")


RESTARTING = """
if "colours" in CONFIG["prompt"]:
    Server().connect()  # and again before its first call, as agents with a slow server do
server = Server()
server.connect()
server.call("write", key="one", value="uno-sentinel")
if "numbers" in CONFIG["prompt"]:
    print("refused" if Server().connect() is None else "let in")
"""


def test_a_restart_alone_is_no_taint(bench, script: Callable[[str], str]) -> None:
    bench.run(
        "record", "--agent", "script", "--agent-option", script(RESTARTING), "--benchmark", "notebook",
        "--task", "numbers", "--task", "colours", "--isolation", "none", "--jobs", "2",
    )  # fmt: skip
    scans = bench.rows("select verdict from scans", database="grades.db")
    assert [scan["verdict"] for scan in scans] == ["clean", "clean"]
    flagged = bench.rows("select task, kind from flags join episodes on episodes.id = episode")
    assert flagged == [{"task": "numbers", "kind": "late_reconnect"}], "refused, and seen"
