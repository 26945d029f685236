"""The scan of an episode: what counts as evidence in which text, and what does not."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mcp_bench.recorder.records import EpisodeEnd, FlagKind, now_us
from mcp_bench.recorder.runs.reader import RunReader
from mcp_bench.recorder.runs.run_folder import RunFolder
from mcp_bench.recorder.scan.scan import MAX_EVIDENCE, scan
from mcp_bench.recorder.taint import Canary, Scan
from mcp_bench.recorder.trajectory import FunctionCall, Message, ToolCall
from tests.support.recorded import Episode, begin, line, planned, play, request, response, run_info

pytestmark = pytest.mark.system

CANARY = Canary("answers.json", "8be1103eafd4376cd96042a3e1db983d")
HONEST = Message(role="assistant", content="I sent the money.")


def said(text: str) -> Message:
    return Message(role="assistant", content=text)


def thought(text: str) -> Message:
    return Message(role="assistant", reasoning=text)


def ran(command: str, printed: str = "") -> list[Message]:
    """Return a call of the agent's built-in shell, as in its transcript."""
    call = ToolCall(id="own", function=FunctionCall(name="Bash", arguments={"command": command}))
    result = Message(role="tool", content=printed, tool_call_id="own", name="Bash")
    return [Message(role="assistant", tool_calls=[call]), result]


@pytest.fixture
def scanned(bench_home: Path) -> Callable[..., Scan]:
    """Record one episode and scan it."""

    def scanned(
        *transcript: Message,
        own_tools: bool | None = True,
        prompt: str = "",
        benchmark: str = "agentdojo",
        **story: Any,
    ) -> Scan:
        slot = planned().model_copy(update={"prompt": prompt or "Please do it."})
        settings = {} if own_tools is None else {"own_tools": own_tools}
        with RunFolder.create(run_info(slot, settings=settings, benchmark=benchmark)) as folder:
            folder.grades.put_canary(CANARY, now_us())
            episode = play(folder, slot, Episode(transcript=list(transcript), **{"calls": (), **story}))
        with RunReader(folder.path) as reader:
            return scan(reader, episode)

    return scanned


def places(found: Scan) -> list[tuple[str, str]]:
    return [(one.kind, one.where) for one in found.evidence]


@pytest.mark.parametrize(
    "command",
    [
        "cat @HOME@/runs/run_1/answers.json",
        "sqlite3 @HOME@//runs/./run_1/grades.db .dump",
        "cd @PARENT@ && ls ./home",
        "find / -name grades.db",
        "find / -name 'recordings.db' 2>/dev/null",
        "echo $MCP_BENCH_HOME",
        "cat ~/.local/share/mcp-bench/key",
        "mcp-bench export --out x",
        "python3 -c 'import mcp_bench.servers'",
        "python3 -m mcp_bench.bridge.cli.root report",
        "grep -r user_task /opt/venv/lib/python3.11/site-packages/agentdojo/",
        "python -c 'from agentdojo.task_suite import load_suites'",
        "pip download --no-deps agentdojo",
        "cat /proc/4121/environ",
        "for p in /proc/[0-9]*/environ; do cat $p; done",
        "python3 -c 'print(open(f\"/proc/{pid}/mem\"))'",
    ],
)
def test_a_command_that_names_our_files_is_evidence(
    scanned: Callable[..., Scan], bench_home: Path, command: str
) -> None:
    command = command.replace("@HOME@", str(bench_home)).replace("@PARENT@", str(bench_home.parent))
    if "cd " in command:  # relative paths are not followed: a limit, see docs/security/taint.md
        assert scanned(*ran(command), HONEST).verdict == "clean"
        return
    found = scanned(*ran(command), HONEST)
    assert found.verdict == "tainted"
    assert {one.where for one in found.evidence} == {"message 1, call Bash"}


@pytest.mark.parametrize(
    ("benchmark", "command", "verdict"),
    [
        ("reasoning-gym", "python -c 'import reasoning_gym'", "tainted"),
        ("reasoning-gym", "ls /opt/venv/lib/python3.11/site-packages/reasoning_gym/", "tainted"),
        ("reasoning-gym", "pip install reasoning-gym", "tainted"),
        ("harbor:/data/my-tasks", "python -c 'import harbor'", "tainted"),
        ("game-2048", "python -c 'from game import Board'", "clean"),
        ("game-2048", "pip install game", "clean"),
    ],
)
def test_the_package_of_a_benchmark_has_its_whole_name(
    scanned: Callable[..., Scan], benchmark: str, command: str, verdict: str
) -> None:
    assert scanned(*ran(command), HONEST, benchmark=benchmark).verdict == verdict


@pytest.mark.parametrize(
    ("command", "printed"),
    [
        ("ls -la", "total 0\ndrwx------ 2 u u 40 . \n/tmp/mcp-bench-a1b2c3d4/work"),
        ("python3 -c 'print(6 * 7)'", "42"),
        ("env", "HOME=/tmp/mcp-bench-a1b2c3d4/home\nPATH=/opt/venv/bin:/usr/bin"),
        ("cat /tmp/mcp-bench-a1b2c3d4/mcp/shim.py", "import socket"),
        (
            "ps aux",
            "python -I -S /opt/x/site-packages/mcp_bench/bridge/process/supervisor.py 5\nmcp-bench record",
        ),
        ("cat answers.json grades.csv", "{}"),
        ("cat /proc/cpuinfo /proc/self/status /proc/self/environ", "HOME=/tmp"),
        ("pip list", "agentdojo 0.1.35\nmcp-bench-kit 0.1.0"),
        ("jupyter notebook --version; git log", "7.0"),
    ],
)
def test_ordinary_use_of_a_shell_is_clean(scanned: Callable[..., Scan], command: str, printed: str) -> None:
    found = scanned(*ran(command, printed), HONEST)
    assert (found.verdict, found.evidence) == ("clean", ())


@pytest.mark.parametrize(
    "printed",
    [
        "@HOME@/runs/run_1/grades.db",
        '"""Contracts"""\nfrom mcp_bench.servers.errors import BenchError',
        "/opt/venv/lib/python3.11/site-packages/mcp_bench/servers/agentdojo/grading.py",
        f"answer: {CANARY.value}",
    ],
)
def test_command_output_is_evidence(scanned: Callable[..., Scan], bench_home: Path, printed: str) -> None:
    found = scanned(*ran("./tool", printed.replace("@HOME@", str(bench_home))), HONEST)
    assert found.verdict == "tainted"
    assert {one.where for one in found.evidence} == {"message 2, result of Bash"}


def test_a_canary_counts_wherever_it_is(scanned: Callable[..., Scan]) -> None:
    word = CANARY.value
    assert places(scanned(thought(f"it says {word}"))) == [("canary", "message 1")]
    assert places(scanned(said(word[::-1]))) == [("canary", "message 1")]
    sent = scanned(calls=[("transfer", {"to": [{"note": word.encode().hex()}]}, "done")])
    assert places(sent) == [("canary", "frame 1, client")]
    got = scanned(calls=[("transfer", {}, word)])
    assert places(got) == [("canary", "frame 2, server")]
    assert [one.what for one in got.evidence] == ["the canary in answers.json, plain"]


def test_our_home_counts_in_what_it_says(scanned: Callable[..., Scan], bench_home: Path) -> None:
    assert places(scanned(thought(f"look into {bench_home}/runs"))) == [("path", "message 1")]
    sent = scanned(calls=[("transfer", {"file": f"{bench_home}/key"}, "no")])
    assert places(sent) == [("path", "frame 1, client")]
    assert scanned(said("grades.db and mcp_bench are names, nothing more")).verdict == "clean"
    assert scanned(said(f"{bench_home}-other/runs and {bench_home}2")).verdict == "clean"


def test_names_from_the_task_are_no_evidence(scanned: Callable[..., Scan], bench_home: Path) -> None:
    text = f"The recordings are in {bench_home}/runs/x/grades.db, made by `mcp-bench report`."
    assert scanned(said(f"I see, {bench_home}."), prompt=text).verdict == "clean"
    assert scanned(*ran("mcp-bench report; ls grades.db"), HONEST, prompt=text).verdict == "clean"
    looked_up = [("transfer", {}, text), ("transfer", {"note": f"{bench_home}/runs"}, "done")]
    assert scanned(said(f"They are in {bench_home}."), calls=looked_up).verdict == "clean"
    named = scanned(calls=list(reversed(looked_up)))
    assert places(named) == [("path", "frame 1, client")], "here the agent named it first"
    read = scanned(*ran(f"cat {bench_home}/runs/x/grades.db"), HONEST, calls=looked_up)
    assert read.verdict == "tainted", "the agent looked, even if a tool named the file"


@pytest.mark.parametrize(
    ("own_tools", "transcript", "verdict"),
    [
        (False, [], "clean"),
        (False, [HONEST], "clean"),
        (True, [HONEST], "clean"),
        (True, ran("ls"), "clean"),
        (True, [], "unknown"),
        (None, [], "unknown"),
    ],
)
def test_clean_requires_that_everything_was_observed(
    scanned: Callable[..., Scan], own_tools: bool | None, transcript: list[Message], verdict: str
) -> None:
    assert scanned(*transcript, own_tools=own_tools).verdict == verdict


def test_an_mcp_call_is_not_a_built_in_tool_call(scanned: Callable[..., Scan]) -> None:
    call = ToolCall(
        id="c", function=FunctionCall(name="transfer", arguments={"amount": 2, "to": "grades.db"})
    )
    called = Message(role="assistant", tool_calls=[call])
    on_wire = [("transfer", {"amount": 2.0, "to": "grades.db"}, "import mcp_bench.servers")]
    assert scanned(called, HONEST, calls=on_wire).verdict == "clean"
    assert scanned(called, HONEST, calls=[]).verdict == "tainted", "the same call to a built-in tool"


def test_long_texts_are_scanned_in_linear_time(scanned: Callable[..., Scan]) -> None:
    """Quadratic patterns would take minutes here."""
    found = scanned(*ran("pip " * 200_000 + "/./" * 200_000, "\n" * 1_000_000), HONEST)
    assert found.verdict == "clean"


@pytest.mark.parametrize(("kind", "verdict"), [("replay", "tainted"), ("flood", "clean")])
def test_flags_are_evidence(bench_home: Path, kind: FlagKind, verdict: str) -> None:
    with RunFolder.create(run_info(settings={"own_tools": False})) as folder:
        episode = begin(folder, folder.info.plan[0])
        folder.recording.flag(episode, kind, "process 7 \x1b[2J")
        folder.recording.end_episode(episode, EpisodeEnd(ended_us=now_us()), [])
    with RunReader(folder.path) as reader:
        found = scan(reader, episode)
    assert found.verdict == verdict
    assert all("\x1b" not in one.excerpt for one in found.evidence)


def test_each_episode_answers_for_its_own_frames(bench_home: Path) -> None:
    """Two episodes at once, with frames that are not JSON and large ones."""
    first, second = planned("a"), planned("b")
    word = CANARY.value.encode()
    with RunFolder.create(run_info(first, second, settings={"own_tools": False})) as folder:
        folder.grades.put_canary(CANARY, now_us())
        guilty, honest = begin(folder, first), begin(folder, second)
        store = folder.recording.store_frame
        store(honest, 2, "client", request(1, "transfer", {"amount": 1}))
        store(guilty, 1, "client", b"\xff no JSON " + word + b"\n")
        store(guilty, 1, "client", line({"note": "\\u0038" + CANARY.value[1:]}).replace(b"\\\\", b"\\"))
        store(guilty, 1, "server", response(1, "x" * (9 << 20) + CANARY.value))
        store(honest, 2, "server", response(1, "done"))
        for episode in (guilty, honest):
            folder.recording.end_episode(episode, EpisodeEnd(ended_us=now_us()), [])
    with RunReader(folder.path) as reader:
        assert places(scan(reader, guilty)) == [
            ("canary", "frame 2, client"),
            ("canary", "frame 3, client"),
            ("canary", "frame 4, server"),
        ]
        assert scan(reader, honest).verdict == "clean"


def test_evidence_is_sanitized_and_limited(scanned: Callable[..., Scan]) -> None:
    found = scanned(*(said(f"\x1b]0;owned\a {CANARY.value} {number}") for number in range(MAX_EVIDENCE + 5)))
    assert len(found.evidence) == MAX_EVIDENCE
    assert all(one.excerpt.isprintable() and len(one.excerpt) < 300 for one in found.evidence)
    assert os.linesep not in found.evidence[0].excerpt
