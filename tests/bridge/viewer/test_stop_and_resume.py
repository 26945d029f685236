"""A run is stopped and resumed from its page in a browser, while a real `mcp-bench record` works on it."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest
from playwright.sync_api import expect

from mcp_bench.bridge.viewer import recording_command
from mcp_bench.recorder.runs.find import run_paths
from mcp_bench.recorder.runs.lock import LOCK, is_being_written
from mcp_bench.recorder.runs.parts import resume_run
from mcp_bench.recorder.runs.reader import RunReader
from mcp_bench.recorder.runs.run_folder import RunFolder
from tests.support import ROOT
from tests.support.bench_commands import Bench
from tests.support.pages.html_page import parse
from tests.support.pages.viewer import OWN, client
from tests.support.pages.viewer_browser import NEEDS_CHROMIUM, PATIENCE_MS, chromium, opened_viewer
from tests.support.recorded import Episode, planned, play, run_info

pytestmark = [pytest.mark.system, NEEDS_CHROMIUM]
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
        refused = client()
        with chromium() as browser, opened_viewer(browser, bench_home) as viewer:
            page = viewer.page
            expect.set_options(timeout=PATIENCE_MS)
            stop, resume = (page.get_by_role("button", name=name) for name in ("Stop the run", "Resume"))
            page.goto(f"{viewer.url}/runs/{path.name}")
            expect(page.get_by_text("1 of 2")).to_be_visible()
            expect(resume).to_have_count(0)
            assert refused.post(f"/runs/{path.name}/resume", headers=OWN).status_code == 400
            stop.click()
            assert viewer.problems.pop().startswith("Stop this run?")  # answered with no
            assert is_being_written(path)
            viewer.accepts = ("Stop this run?",)
            with page.expect_navigation(timeout=PATIENCE_MS):  # the question is answered meanwhile
                stop.click(timeout=PATIENCE_MS)
            process.communicate(timeout=SECONDS)
            page.reload()
            expect(stop).to_have_count(0)
            assert refused.post(f"/runs/{path.name}/stop", headers=OWN).status_code == 400
            go.touch()
            resume.click()
            # the page follows the run by itself
            expect(page.get_by_text("2 of 2")).to_be_visible(timeout=SECONDS * 1000)
            expect(resume).to_have_count(0)
            assert viewer.problems == []
    until_let_go(path)


def until_let_go(path: Path) -> None:
    """Wait until the resumed command, which holds the lock of the run, has ended."""
    with (path / LOCK).open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
    with RunReader(path) as reader:
        summary = reader.summary()
    assert summary is not None
    assert summary.done == 2


def test_a_resume_that_fails_is_reported(bench_home: Path) -> None:
    with RunFolder.create(run_info(planned())) as folder:
        path = folder.path
    (path / "recordings.db").write_bytes(b"not a database" * 1000)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in Bench(bench_home).environment().items():
            patch.setenv(name, value)
        patch.setattr(recording_command, "START_SECONDS", SECONDS)
        answer = client().post(f"/runs/{path.name}/resume", headers=OWN)
    assert answer.status_code == 400
    assert f"record --resume {path.name}` failed" in answer.text
    assert "recordings.db" in answer.text


def test_a_resume_that_ends_early_says_why_on_its_page(bench_home: Path) -> None:
    with RunFolder.create(run_info(planned())) as folder:
        path = folder.path
    log = path / recording_command.LOG
    page = f"/runs/{path.name}"
    assert "ended early" not in client().get(page).text
    log.write_text("run: 1 episode\nError: the disk <b>is</b> full\n")
    text = parse(client().get(page).text).text
    assert "The last resume from this page ended early" in text
    assert "Error: the disk <b>is</b> full" in text
    with resume_run(path.name) as again:
        os.utime(log, (0, 0))  # older than this
        assert "ended early" not in client().get(page).text
        play(again, again.info.plan[0], Episode())
    assert "ended early" not in client().get(page).text


def test_the_button_says_that_it_stops_a_matrix(bench_home: Path) -> None:
    """The lock of a cell names the command of the matrix, which records the other cells, too."""
    script = (
        "import sys; from tests.support.recorded import run_info;"
        "from mcp_bench.recorder.runs.run_folder import RunFolder;"
        "folder = RunFolder.create(run_info()); print(folder.path.name, flush=True); input()"
    )
    for arguments, words in (("--config", "Stop the whole matrix"), ("--agent", "Stop the run")):
        command = [
            sys.executable,
            "-c",
            f"import sys; sys.path.append({str(ROOT)!r})\n{script}",
            "record",
            arguments,
        ]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as recording:
            assert recording.stdout is not None
            run = recording.stdout.readline().strip()
            buttons = [one.text for one in parse(client().get(f"/runs/{run}").text).all("button")]
            assert words in buttons
            recording.communicate("")
