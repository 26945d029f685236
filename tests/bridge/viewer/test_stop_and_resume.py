"""A run is stopped and resumed from its page, while a real `mcp-bench record` works on it."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from mcp_bench.recorder.runs.find import run_paths
from mcp_bench.recorder.store.reader import RunReader
from mcp_bench.recorder.store.run_folder import RunFolder, is_being_written
from tests.support.bench_commands import Bench
from tests.support.html_page import parse
from tests.support.recorded import planned, run_info
from tests.support.viewer import OWN, client

pytestmark = pytest.mark.system
SOURCE = """
import json, os, subprocess, sys

settings = json.load(open(os.environ["CONFIG"]))
server = subprocess.Popen(settings["command"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def ask(**message):
    server.stdin.write(json.dumps({{"jsonrpc": "2.0", **message}}).encode() + b"\\n")
    server.stdin.flush()
    return server.stdout.readline() if "id" in message else b""


client = {{"name": "waiting", "version": "1"}}
ask(id=1, method="initialize", params={{"protocolVersion": "2025-06-18", "capabilities": {{}}, "clientInfo": client}})
ask(method="notifications/initialized")
ask(id=2, method="tools/list", params={{}})
if settings["repeat"] and not os.path.exists({go!r}):
    open({waits!r}, "wb").write(b".")  # somebody waits for this
    open({held!r}, "rb").read()  # nobody writes there
print("done")
"""
SECONDS = 120.0


def test_a_run_is_stopped_and_resumed(bench_home: Path, tmp_path: Path) -> None:
    agent, go, waits, held = (tmp_path / name for name in ("agent.py", "go", "waits", "held"))
    agent.write_text(SOURCE.format(go=str(go), waits=str(waits), held=str(held)))
    os.mkfifo(waits)
    os.mkfifo(held)
    bench = Bench(bench_home)
    command = (
        "record", "--agent", "script", "--agent-option", f"file={agent}", "--benchmark", "notebook",
        "--task", "colours", "--repeat", "2", "--jobs", "1", "--isolation", "none",
    )  # fmt: skip
    with pytest.MonkeyPatch.context() as patch, bench.start(*command) as process:
        for name, value in bench.environment().items():
            patch.setenv(name, value)
        assert waits.read_bytes() == b"."  # the first episode is done, the second waits
        (path,) = run_paths()
        browser = client()
        page = f"/runs/{path.name}"
        assert "1 of 2" in parse(browser.get(page).text).text
        assert browser.post(f"{page}/resume", headers=OWN).status_code == 400
        assert browser.post(f"{page}/stop", headers=OWN).status_code == 303
        process.communicate(timeout=SECONDS)
        text = browser.get(page).text
        assert f'action="{page}/resume"' in text
        assert f'action="{page}/stop"' not in text
        assert browser.post(f"{page}/stop", headers=OWN).status_code == 400
        go.touch()
        assert browser.post(f"{page}/resume", headers=OWN).status_code == 303
        until_done(path)
        text = browser.get(page).text
        assert "2 of 2" in parse(text).text
        assert f'action="{page}/resume"' not in text


def until_done(path: Path) -> None:
    """Wait until both episodes are done and the resumed command has let go of the run."""
    (waiting,) = (one for one in threading.enumerate() if one.name == f"resumed {path.name}")
    waiting.join(SECONDS)
    with RunReader(path) as reader:
        summary = reader.summary()
    assert summary is not None
    assert summary.done == 2
    assert not is_being_written(path)


def test_a_resume_that_fails_is_reported(bench_home: Path) -> None:
    with RunFolder.create(run_info(planned())) as folder:
        path = folder.path
    (path / "recordings.db").write_bytes(b"not a database" * 1000)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in Bench(bench_home).environment().items():
            patch.setenv(name, value)
        answer = client().post(f"/runs/{path.name}/resume", headers=OWN)
    assert answer.status_code == 400
    assert f"record --resume {path.name}` failed" in answer.text
    assert "recordings.db" in answer.text
