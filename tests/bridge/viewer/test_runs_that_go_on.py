"""Pages of runs that are being recorded, and of those whose writer was killed."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from mcp_bench.bridge.viewer import recordings
from mcp_bench.bridge.viewer.recordings import signature
from mcp_bench.bridge.viewer.training.folders import place_of
from mcp_bench.recorder.conversations.align import align
from mcp_bench.recorder.records import EpisodeEnd, PlannedEpisode, now_us
from mcp_bench.recorder.runs.lock import LOCK
from mcp_bench.recorder.runs.parts import take_in
from mcp_bench.recorder.runs.run_folder import GRADES, RunFolder
from mcp_bench.servers.contracts import Grade
from tests.support.pages.html_page import parse
from tests.support.pages.viewer import EVIL, OWN, client
from tests.support.recorded import Episode, begin, kill, part_of, planned, play, record, request, run_info

pytestmark = pytest.mark.component


def test_what_was_cut_off_does_not_run(bench_home: Path) -> None:
    """The run's writer was killed: an attempt without an end is not shown as one that goes on."""
    with RunFolder.create(run_info(planned("first"), planned("second"))) as folder:
        play(folder, planned("first"), Episode())
        episode = begin(folder, planned("second"))
        page, viewed = f"/runs/{folder.path.name}", client()
        folder.recording.store_frame(episode, 1, "client", request(1, f"tool{EVIL}", {}))
        for address in ("/", page):
            text = viewed.get(address).text
            assert "Running now" in text and "tool&lt;script&gt;" in text
            assert "<img" not in text and "\x1b" not in text and "\u202e" not in text
        assert "recording …" in viewed.get(f"{page}/{episode}").text
    for address in ("/", page):
        assert "Running now" not in viewed.get(address).text
    assert "⊘ cut off" in parse(viewed.get(page).text).text
    assert "second" in parse(viewed.get(f"{page}?verdict=cut+off").text).all("tbody")[-1].text
    text = viewed.get(f"{page}/{episode}").text
    assert "recording …" not in text and "sse-connect" not in text
    assert "Cut off: nobody records this run any more" in text


def test_a_call_that_goes_on_has_not_failed(bench_home: Path) -> None:
    with RunFolder.create(run_info(planned())) as folder:
        episode = begin(folder, planned())
        folder.recording.store_frame(episode, 1, "client", request(1, "search", {}))
        page = f"/runs/{folder.path.name}/{episode}"
        drawn = _calls(client().get(page).text)
        assert drawn == ["call"]
        assert "Result of call 1 (not ended):" in client().get(f"{page}/markdown").text
        messages = align("Do it.", [], folder.recording.recorded_calls(episode), system=None)
        folder.recording.end_episode(episode, EpisodeEnd(termination="crash", ended_us=now_us()), messages)
        assert _calls(client().get(page).text) == ["call failed"]


def test_an_update_leaves_texts_as_they_are_shown(bench_home: Path) -> None:
    """As they were written, or with their Markdown rendered."""
    viewed = client()
    with RunFolder.create(run_info(planned())) as folder:
        page = f"/runs/{folder.path.name}/{begin(folder, planned())}"
        for address in (page, f"{page}?text=raw"):
            asks = [
                one for one in parse(viewed.get(address).text).all("div") if "hx-trigger" in one.attributes
            ]
            assert [one.attributes["hx-get"] for one in asks] == [address]


def _calls(text: str) -> list[str]:
    found = (one.attributes.get("class", "") for one in parse(text).all("details"))
    return [name for name in found if "call" in name.split()]


def test_an_interactive_run_updates_its_page(bench_home: Path) -> None:
    """It has no plan, so nothing says how much is left."""
    viewed = client()
    with RunFolder.create(run_info(plan=[])) as folder:
        play(folder, planned("first"), Episode())
        for address in ("/", f"/runs/{folder.path.name}"):
            assert 'class="live"' in viewed.get(address).text, address
        assert "sse-connect" in viewed.get(f"/runs/{folder.path.name}").text
    for address in ("/", f"/runs/{folder.path.name}"):
        text = viewed.get(address).text
        assert "sse-connect" not in text and 'class="live"' not in text


def test_an_attempt_whose_referee_died_is_a_failure(bench_home: Path) -> None:
    """A resumed run marks it as invalid; it never gets an end."""
    folder = RunFolder.create(run_info())
    begin(folder, planned())
    kill(folder)
    with RunFolder.reopen(folder.path) as again:
        again.mark_died()
    assert "referee_died: the referee died before the grade was stored" in client().get("/failures").text


@pytest.mark.parametrize("plan", [[planned("first"), planned("second")], []], ids=["recorded", "interactive"])
def test_what_was_cut_off_runs_on_no_page(plan: list[PlannedEpisode], bench_home: Path) -> None:
    """A referee of interactive use has no plan, and can be killed, too."""
    folder = RunFolder.create(run_info().model_copy(update={"plan": plan}))
    done = play(folder, planned("first"), Episode())
    episode = begin(folder, planned("second"))
    run, viewed = folder.path.name, client()
    viewed.post(f"/runs/{run}/{episode}/review", data={"verdict": "bad"}, headers=OWN)
    data = bench_home / "loops" / "train.jsonl.manifest.json"
    data.parent.mkdir()
    data.write_text(json.dumps({
        "tool": "mcp-bench-kit", "funnel": {"rows_in": 2, "rows_out": 1}, "episodes": [done],
        "left_out": {run: {"not_ended": [episode]}},
    }))  # fmt: skip
    exported = place_of(str(data))
    assert exported is not None
    pages = (
        f"/runs/{run}", f"/runs/{run}/{episode}", f"/grid?run={run}", "/reviews", exported[0],
        f"/side-by-side?a={run}/{done}&b={run}/{episode}",
    )  # fmt: skip

    def states(page: str) -> set[str]:
        looks = [one.attributes.get("class") or "" for one in parse(viewed.get(page).text).all()]
        found = {look.partition(" ")[2] for look in looks if look.startswith(("badge ", "cell "))}
        return found & {"running", "cut off"}

    for page in pages:
        assert states(page) == {"running"}, page
    kill(folder)
    for page in pages:
        assert states(page) == {"cut off"}, page
    text = viewed.get(f"/runs/{run}/{episode}").text
    assert "sse-connect" not in text and "Cut off: nobody records this run any more" in text


def test_only_the_command_of_this_machine_is_stopped(bench_home: Path) -> None:
    """The lock names a process of another machine, and a process here has the same number."""
    command = [sys.executable, "-c", "input()", "record"]
    with (
        RunFolder.create(run_info()) as folder,
        subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as other,
    ):
        owner = {"pid": other.pid, "host": f"not-{socket.gethostname()}", "since_us": 0}
        (folder.path / LOCK).write_text(json.dumps(owner))
        answer = client().post(f"/runs/{folder.path.name}/stop", headers=OWN)
        other.communicate("\n")
        assert answer.status_code == 400 and "on this machine" in answer.text
        assert other.returncode == 0


def test_attempts_of_referee_processes_are_shown_while_they_run(bench_home: Path) -> None:
    plan = [planned("first"), planned("second")]
    with RunFolder.create(run_info(*plan)) as run, part_of(run) as part:
        episode = begin(part, plan[0])
        page, viewed = f"/runs/{run.path.name}", client()
        before = signature(run.path)
        part.recording.store_frame(episode, 1, "client", request(1, "open_door", {}))
        part.recording.flush()
        assert signature(run.path) != before
        for address in ("/", page):
            text = viewed.get(address).text
            assert "Running now" in text and "open_door" in text and f"{page}/{episode}" in text
        text = viewed.get(f"{page}/{episode}").text
        assert "recording …" in text and "open_door" in text
        assert (
            viewed.post(f"{page}/{episode}/review", data={"verdict": "good"}, headers=OWN).status_code == 303
        )
        assert "… running" in parse(viewed.get("/reviews").text).text
        for address in (f"/episodes/{episode}", f"/search?q={episode}"):
            assert viewed.get(address).headers["location"] == f"{page}/{episode}", address
        assert viewed.get("/episodes/ep_nothing").status_code == 404
        part.recording.end_episode(episode, EpisodeEnd(termination="agent_exit", ended_us=now_us()), [])
        grade = Grade(partial=1.0, strict=True, assertions=(), grader_version="1")
        part.grades.put(episode, grade, {}, now_us())
        take_in(run, part.path, {episode})
        text = viewed.get(f"{page}/{episode}").text
        assert "recording …" not in text and "✓ solved" in parse(text).text


def test_attempts_of_referee_processes_are_shown_side_by_side(bench_home: Path) -> None:
    plan = [planned("door", repeat=repeat) for repeat in range(3)]
    with RunFolder.create(run_info(*plan)) as run, part_of(run) as part:
        done = play(run, plan[0], Episode())
        first, second = (begin(part, slot) for slot in plan[1:])
        page, viewed = f"/runs/{run.path.name}", client()
        links = [one.attributes["href"] or "" for one in parse(viewed.get(f"{page}/{first}").text).all("a")]
        (beside,) = (link for link in links if link.startswith("/side-by-side"))
        assert first in beside and second in beside
        for address in (beside, f"/side-by-side?a={run.path.name}/{done}&b={run.path.name}/{second}"):
            answer = viewed.get(address)
            assert answer.status_code == 200 and "… running" in parse(answer.text).text


@pytest.mark.parametrize(
    ("address", "shown"),
    [("/", "1/2"), ("/runs/{run}", "1 of 2"), ("/tools?run={run}", "transfer"), ("/search?q=harbour", "user_task_0")],
)  # fmt: skip
def test_every_page_has_the_episodes_that_a_killed_referee_left(
    address: str, shown: str, bench_home: Path
) -> None:
    """They are beside the run's own files, which are still as the viewer has read them."""
    plan = [planned("user_task_0"), planned("user_task_1")]
    run = RunFolder.create(run_info(*plan))
    part = part_of(run)
    play(part, plan[0], Episode([("transfer", {"to": "harbour"}, "sent")]))
    page, viewed = address.format(run=run.path.name), client()
    assert shown not in viewed.get(page).text
    kill(run)
    kill(part)
    assert shown in viewed.get(page).text


def test_a_list_that_is_up_to_date_is_not_sent(bench_home: Path) -> None:
    folder, _ = record([(planned(), Episode())])
    for file in folder.path.iterdir():
        os.utime(file, (1, 1))  # long ago
    viewed = client()
    (poll,) = (one for one in parse(viewed.get("/").text).all("div") if "hx-trigger" in one.attributes)
    assert viewed.get(str(poll.attributes["hx-get"])).status_code == 204
    record([(planned(), Episode())])
    assert viewed.get(str(poll.attributes["hx-get"])).status_code == 200


def test_a_grade_in_the_same_tick_of_the_clock_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """File times tick every few ms, and a log is written again in place: neither time nor size changes."""
    monkeypatch.setattr(recordings, "YOUNG_NS", 10**12)  # however busy the machine is
    file = tmp_path / GRADES
    file.write_text("nothing yet")
    now = time.time_ns()
    os.utime(file, ns=(now, now))
    before = signature(tmp_path)
    file.write_text("the grade!!")
    os.utime(file, ns=(now, now))
    assert signature(tmp_path) != before
    os.utime(file, ns=(now - 10**13, now - 10**13))
    assert signature(tmp_path) == signature(tmp_path)
