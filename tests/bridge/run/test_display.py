"""Progress of a run on a terminal, in a file, and during long silences."""

import json
import os
import pty
import signal
import subprocess
from collections.abc import Callable, Iterator

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_bench.bridge.episode.episode import Outcome
from mcp_bench.bridge.run.display import SILENCE_SECONDS, Display
from mcp_bench.bridge.run.progress import Pace, Progress, short
from mcp_bench.recorder.records import PlannedEpisode
from mcp_bench.recorder.trajectory import Usage
from mcp_bench.servers.grading import Grade

pytestmark = pytest.mark.system

Write = Callable[[str], str]

WRITES = """
server = Server(); server.connect()
server.call("write", key="sky", value="cerulean-sentinel")
open(os.path.join(os.environ["HOME"], "usage"), "w").write('{"cost_usd": 0.25, "input_tokens": 1500, "output_tokens": 20}')
"""
HOLDS = WRITES + "import time; time.sleep(600)"
RECORD = ("record", "--agent", "script", "--benchmark", "notebook", "--jobs", "2")


class Terminal:
    """Runs a command on its own terminal; `seen` is all of its output."""

    def __init__(self, bench, *args: str, **environ: str) -> None:
        self._ours, theirs = pty.openpty()
        env = {**bench.environment(), "TERM": "xterm-256color", **environ}
        self.process = subprocess.Popen(
            bench.command(*args), env=env, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True
        )
        os.close(theirs)
        self.seen = ""

    def wait_for(self, text: str) -> None:
        while text not in self.seen:
            assert self._read(), self.seen

    def end(self) -> int:
        while self._read():
            pass
        os.close(self._ours)
        return self.process.wait(60)

    def _read(self) -> bool:
        try:
            chunk = os.read(self._ours, 65536)
        except OSError:  # the other end is closed
            return False
        self.seen += chunk.decode(errors="replace")
        return bool(chunk)


@pytest.fixture
def terminal(bench) -> Iterator[Callable[..., Terminal]]:
    opened: list[Terminal] = []

    def open_one(*args: str, **environ: str) -> Terminal:
        opened.append(Terminal(bench, *args, **environ))
        return opened[-1]

    yield open_one
    for one in opened:
        one.process.kill()
        one.process.wait()


def test_a_terminal_shows_a_status_and_a_line_per_episode(
    terminal: Callable[..., Terminal], script: Write
) -> None:
    shown = terminal(*RECORD, "--agent-option", script(WRITES))
    assert shown.end() == 0
    assert "running" in shown.seen
    for number in (1, 2):
        assert f"[{number}/2]" in shown.seen
    assert "3.0k tokens in, 40 out, $0.50" in shown.seen
    assert "\x1b[?25h" in shown.seen[-200:] or "\x1b[?25l" not in shown.seen, "the cursor is back"
    summary = shown.seen.rpartition("\x1b[?25h")[2]
    assert "partial 0.250, strict 0/2, 2 calls" in summary


def test_running_calls_count_and_ctrl_c_restores_the_cursor(
    bench, terminal: Callable[..., Terminal], script: Write
) -> None:
    shown = terminal(*RECORD, "--agent-option", script(HOLDS))
    shown.wait_for("2 running")
    shown.wait_for("calls/s")  # needs two samples
    shown.process.send_signal(signal.SIGINT)
    shown.wait_for("Stopping")
    assert shown.end() == 1
    assert "Stopped. Resume with" in shown.seen
    assert shown.seen.rindex("\x1b[?25h") > shown.seen.rindex("\x1b[?25l")


@pytest.mark.parametrize("environ", [{}, {"FORCE_COLOR": "1"}, {"TTY_COMPATIBLE": "1"}])
def test_a_file_gets_plain_lines(bench, script: Write, environ: dict[str, str]) -> None:
    bench.environ.update(environ)
    done = bench.run(*RECORD, "--agent-option", script(WRITES), "--json")
    lines = done.stderr.splitlines()
    assert "\x1b[2K" not in done.stderr
    assert "\x1b[?25l" not in done.stderr
    assert [line.count("partial") for line in lines] == [0, 1, 1, 1]
    assert json.loads(done.stdout)["cost_usd"] == 0.5


def test_a_dumb_terminal_gets_plain_lines(terminal: Callable[..., Terminal], script: Write) -> None:
    shown = terminal(*RECORD, "--agent-option", script(WRITES), TERM="dumb")
    assert shown.end() == 0
    assert "\x1b" not in shown.seen
    assert shown.seen.count("\n") == 4


def test_an_agents_words_cannot_control_the_terminal(bench, script: Write) -> None:
    fault = "\\x1b]0;mine\\x07\\x1b[2Jgone\\nsecond line"
    says = WRITES + f'open(os.path.join(os.environ["HOME"], "fault"), "w").write("endpoint_error: {fault}")'
    done = bench.run(*RECORD, "--agent-option", script(says), code=1)
    assert "\x1b" not in done.stderr
    (one, two) = [line for line in done.stderr.splitlines() if "endpoint_error" in line]
    assert one.startswith("[0/2]") and one.endswith("again after the others")
    assert two.startswith("[0/2]")
    assert "gone second line" in one


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def planned(task: str, repeat: int = 0) -> PlannedEpisode:
    return PlannedEpisode(task=task, split="train", domain="d", prompt="p", repeat=repeat)


def outcome(**parts: object) -> Outcome:
    facts = {
        "episode": "ep_1", "task": "t", "termination": "agent_exit", "invalid": None, "detail": None,
        "grade": None, "calls": 3, "seconds": 1.0, **parts,
    }  # fmt: skip
    return Outcome(**facts)


GRADE = Grade(partial=0.5, strict=False, assertions=(), grader_version="1")


def test_only_a_long_silence_prints_a_status_line(capsys) -> None:
    clock, calls = Clock(), 0
    with Display(4, 2, "agent on it", lambda: calls, clock=clock) as display:
        display.began(planned("a"), 0)
        display.began(planned("b"), 0)
        display.tick()
        clock.now += 10
        display.ended(planned("a"), outcome(grade=GRADE, usage=Usage(input_tokens=900, cost_usd=0.1)), None)
        capsys.readouterr()
        clock.now += SILENCE_SECONDS - 1
        calls = 39
        display.tick()
        assert capsys.readouterr().err == "", "not yet"
        clock.now += 1
        display.tick()
        (beat,) = capsys.readouterr().err.splitlines()
        assert beat == (
            "[1/4] 1 running, partial 0.500, strict 0/1, 1.0 calls/s, 900 tokens in, 0 out, $0.10, 0:00:10 left"
        )
        for _ in range(5):
            display.tick()
            clock.now += 5
        assert capsys.readouterr().err == "", "the line itself ended the silence"


def test_a_waiting_run_prints_status_lines(capsys) -> None:
    clock = Clock()

    async def wait() -> None:
        with anyio.fail_after(60):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(display.keep_current)
                while not capsys.readouterr().err:
                    clock.now += SILENCE_SECONDS
                    await anyio.wait_all_tasks_blocked()
                tasks.cancel_scope.cancel()

    with Display(1, 1, "agent on it", lambda: 0, clock=clock) as display:
        anyio.run(wait)


def test_a_retried_episode_counts_once(capsys) -> None:
    broken = outcome(invalid="endpoint_error", detail="503")
    with Display(1, 1, "agent on it", lambda: 0) as display:
        display.began(planned("a"), 0)
        display.ended(planned("a"), broken, 5.0)
        assert (display.progress.done, display.progress.invalid) == (0, 1)
        assert "0 running, 1 waiting, 1 invalid" in display.status()
        display.began(planned("a"), 1)
        assert (display.progress.invalid, display.progress.retried) == (0, 1)
        display.ended(planned("a"), outcome(grade=GRADE), None)
    assert str(display.progress) == "partial 0.500, strict 0/1, 6 calls, 1 retried"
    assert "retry in 5 s" in capsys.readouterr().err


events = st.lists(st.tuples(st.integers(0, 3), st.sampled_from(["good", "bad", "again"])), max_size=30)


@given(events)
def test_every_attempt_counts_once(endings: list[tuple[int, str]]) -> None:
    progress, waiting, over = Progress(), dict[int, int](), 0
    for made, (slot, result) in enumerate(endings, 1):
        progress.began(waiting.pop(slot, 0))
        invalid = None if result == "good" else "endpoint_error"
        again = 1.0 if result == "again" else None
        progress.ended(outcome(invalid=invalid, grade=GRADE if invalid is None else None), again)
        if result == "again":
            waiting[slot] = 1
        else:
            over += 1
        assert (progress.done, progress.waiting) == (over, len(waiting))
        assert progress.graded + progress.invalid + progress.retried == made
        assert progress.calls == 3 * made


@given(st.integers(1, 8), st.integers(0, 40), st.floats(0.1, 1000))
def test_time_left_is_exact_for_equal_durations(jobs: int, rounds: int, each: float) -> None:
    clock = Clock()
    pace = Pace(total=jobs * (rounds + 1), jobs=jobs, clock=clock)
    assert pace.seconds_left is None
    for number in range(jobs):
        pace.began(planned("t", number))
    clock.now += each
    for number in range(jobs):
        pace.finished(planned("t", number))
    assert pace.seconds_left == pytest.approx(rounds * each, rel=1e-6)
    assert pace.running == 0


def test_large_numbers_are_short() -> None:
    assert [short(number) for number in (0, 999, 1000, 12_345, 4_600_000)] == [
        "0",
        "999",
        "1.0k",
        "12.3k",
        "4.6M",
    ]
