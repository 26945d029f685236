import json
import re
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing

import pytest
from click.testing import Result
from hypothesis import given
from hypothesis import strategies as st

from mcp_bench.recorder.cli.show import show
from mcp_bench.recorder.runs.run_folder import RunFolder
from mcp_bench.recorder.trajectory import FunctionCall, Message, ToolCall
from mcp_bench.servers.errors import UnknownNameError, WrongUseError
from mcp_bench.servers.terminal.sanitize import sanitize
from tests.support.recorded import Episode, begin, kill, planned, record, request, run_info

pytestmark = pytest.mark.unit

Invoke = Callable[..., Result]


def test_shows_an_episode_with_grade_and_conversation(invoke: Invoke) -> None:
    _, (episode,) = record([(planned(), Episode(partial=0.5, detail="balance is 3"))], model="m-1")
    result = invoke(show, episode)
    assert result.exit_code == 0, result.exception
    for text in (
        episode, "agentdojo user_task_0 (train, banking)", "oracle 1.0", "m-1", "partial 0.500, not solved",
        "objectives: 0 of 1 met", "NOT MET  sent", "found: balance is 3", "Please do user_task_0.", 'transfer {"amount": 12.5}',
        "I sent the money.",
    ):  # fmt: skip
        assert text in result.output
    assert "SEALED-STATE" not in result.output


def test_json_is_one_document(invoke: Invoke) -> None:
    _, (episode,) = record([(planned(), Episode(partial=0.5))])
    document = json.loads(invoke(show, episode, "--json").stdout)
    assert document["grade"]["assertions"][0]["name"] == "sent"
    assert document["calls"][0]["outcome"] == "ok"
    assert [message["role"] for message in document["messages"]] == ["user", "assistant", "tool", "assistant"]


def test_an_unfinished_episode_is_shown_by_its_calls(invoke: Invoke) -> None:
    with RunFolder.create(run_info()) as folder:
        episode = begin(folder, folder.info.plan[0])
        folder.recording.store_frame(episode, 1, "client", request(1, "transfer", {"amount": 99}))
        output = invoke(show, episode).output
    assert 'transfer {"amount": 99}' in output
    assert "grade      none" in output


def test_a_run_lists_its_episodes(invoke: Invoke) -> None:
    folder, episodes = record([(planned("a"), Episode(partial=0.5)), (planned("b"), Episode())])
    output = invoke(show, folder.id).output
    about, _, *lines = output.splitlines()
    assert about.startswith(f"{folder.id}: oracle on agentdojo, 2/2 done, began 20")
    assert [line.split()[0] for line in lines] == episodes
    assert "partial 0.50, not solved" in output
    listed = json.loads(invoke(show, folder.id, "--json").stdout)
    assert [(row["id"], row["task"], row["calls"]) for row in listed] == [
        (episodes[0], "a", 1), (episodes[1], "b", 1),
    ]  # fmt: skip


def test_an_attempt_that_nobody_records_is_cut_off(invoke: Invoke) -> None:
    folder = RunFolder.create(run_info())
    begin(folder, folder.info.plan[0])
    assert "running" in invoke(show, folder.id).output
    kill(folder)
    output = invoke(show, folder.id).output
    assert ("cut off" in output, "running" in output) == (True, False)


def test_a_damaged_run_does_not_hide_other_runs(invoke: Invoke) -> None:
    """`show` without a name lists all runs."""
    assert "no recordings yet" in invoke(show).output
    folder, _ = record([(planned(), Episode())])
    damaged = folder.path.parent / "run_damaged"
    damaged.mkdir()
    (damaged / "recordings.db").write_bytes(b"not a database, " * 99)
    without_plan, _ = record([(planned(), Episode())])
    with closing(sqlite3.connect(without_plan.path / "recordings.db")) as db, db:
        db.execute("UPDATE runs SET plan = '[{'")
    result = invoke(show, "--json")
    (run,) = json.loads(result.stdout)
    assert (run["id"], run["planned"], run["done"]) == (folder.id, 1, 1)
    assert result.exit_code == 1
    assert "run_damaged" in result.stderr
    assert f"its plan is no JSON): see `mcp-bench verify {without_plan.id}`" in result.stderr


def test_a_unique_prefix_of_an_id_is_enough(invoke: Invoke) -> None:
    _, (first, second) = record([(planned("a"), Episode()), (planned("b"), Episode())])
    shared = next(first[:n] for n in range(len(first), 0, -1) if second.startswith(first[:n]))
    assert json.loads(invoke(show, first[: len(shared) + 1], "--json").stdout)["id"] == first
    ambiguous = invoke(show, shared).exception
    assert isinstance(ambiguous, WrongUseError)
    assert first in str(ambiguous)


def test_an_episode_is_found_beside_a_copy_of_its_run(invoke: Invoke) -> None:
    folder, (first, second) = record([(planned("a"), Episode()), (planned("b"), Episode())])
    shutil.copytree(folder.path, folder.path.with_name(f"{folder.id}.bak"))
    shutil.copytree(folder.path, folder.path.with_name("a-copy"))
    assert f"run        {folder.id}" in invoke(show, first).output
    assert f"{folder.path}/logs" in invoke(show, first).output
    several = invoke(show, "ep_").exception
    assert str(several) == f"'ep_' matches 2 episodes ({first}, {second}): give a longer prefix"
    listed = invoke(show, "--json")
    assert [run["id"] for run in json.loads(listed.stdout)] == [folder.id]
    assert (listed.exit_code, listed.stderr.count(f"is a copy of the run {folder.id} beside it")) == (1, 2)


def test_an_unknown_episode_suggests_similar_ids(invoke: Invoke) -> None:
    _, (episode,) = record([(planned(), Episode())])
    error = invoke(show, episode[:-1] + "!").exception
    assert isinstance(error, UnknownNameError)
    assert episode in str(error)


def test_a_name_is_a_name_never_a_path(invoke: Invoke) -> None:
    record([(planned(), Episode())])
    for name in ("x" * 300, "run_" + "x" * 300, "../runs", "."):
        error = invoke(show, name).exception
        assert isinstance(error, UnknownNameError), (name, error)


def calls_and_text() -> Episode:
    """Two calls in one turn, one of them with a long result; a third one in the next turn."""

    def call(number: int, **arguments: str) -> ToolCall:
        return ToolCall(id=f"t{number}", function=FunctionCall(name="transfer", arguments=dict(arguments)))

    transcript = [
        Message(role="assistant", reasoning="I plan.", tool_calls=[call(1, to="a"), call(2, to="b")]),
        Message(role="assistant", content="One more.", tool_calls=[call(3, to="c"), call(4, to="nowhere")]),
        Message(role="assistant", content="Done."),
    ]
    calls = [
        ("transfer", {"to": "a"}, "\n".join(f"row {n}" for n in range(1000))),
        ("transfer", {"to": "b"}, "!refused"),
        ("transfer", {"to": "c"}, "x" * 5000),
    ]
    return Episode(calls=calls, transcript=transcript, partial=0.5)


def test_messages_have_numbers_turns_and_times(invoke: Invoke) -> None:
    _, (episode,) = record([(planned(), calls_and_text())])
    output = invoke(show, episode).output
    headings = [line for line in output.splitlines() if re.match(r"[ \d]\d  ", line)]
    seconds = r"  at [0-9]+\.[0-9] s(, took [0-9.]+ m?s)?"
    expected = [
        r" 0  user", r" 1  turn 1" + seconds, r" 2  result of call 1  transfer  ok" + seconds,
        r" 3  result of call 2  transfer  error of the tool" + seconds, r" 4  turn 2" + seconds,
        r" 5  result of call 3  transfer  ok" + seconds,
        r" 6  result of call -  transfer  never reached the server", r" 7  turn 3",
    ]  # fmt: skip
    assert len(headings) == len(expected), output
    for heading, pattern in zip(headings, expected, strict=True):
        assert re.fullmatch(pattern, heading), (heading, pattern)
    assert '    thinks  I plan.\n    call 1  transfer {"to": "a"}\n    call 2  transfer {"to": "b"}' in output
    document = json.loads(invoke(show, episode, "--json").stdout)
    moments = document["timeline"]
    assert [moment["turn"] for moment in moments] == [None, 1, None, None, 2, None, None, 3]
    assert [moment["calls"] for moment in moments][1:6] == [[1, 2], [1], [2], [3, None], [3]]
    assert moments[2]["ended_us"] == document["calls"][0]["ended_us"]


def test_long_results_are_folded_unless_full(invoke: Invoke) -> None:
    _, (episode,) = record([(planned(), calls_and_text())])
    folded, full = (invoke(show, episode, *options).output for options in ((), ("--full",)))
    assert "row 5\n" in folded and "row 6\n" not in folded
    assert "... 7,853 more characters of 1,000 lines (--full shows all)" in folded
    assert "more characters (--full shows all)" in folded  # of the line of 5000 characters
    assert len(folded) < 3000
    assert "row 999" in full and "x" * 5000 in full and "--full" not in full
    assert all(line[:1] in " 0123456789" for line in folded.split("user\n")[1].splitlines() if line)


@pytest.mark.parametrize(
    "attack", ["\x1b]0;owned\x07", "\x1b[2J", "\x9b31m", "a\rb", "\u202egnp.exe", "\x00"]
)
def test_recorded_text_cannot_control_the_terminal(invoke: Invoke, attack: str) -> None:
    story = Episode(calls=[("transfer", {"note": attack}, f"result {attack}")], detail=attack)
    _, (episode,) = record([(planned(attack), story)], model=attack)
    output = invoke(show, episode).output
    assert attack not in output
    assert not set(output) & {"\x1b", "\x9b", "\r", "\u202e", "\x00", "\x07"}


@given(st.text(st.characters()))
def test_sanitize_removes_only_control_characters(text: str) -> None:
    shown = sanitize(text)
    assert all(char in "\t\n" or (ord(char) >= 32 and not 127 <= ord(char) <= 159) for char in shown)
    assert sanitize(shown) == shown
    if text.isascii() and text.isprintable():
        assert shown == text
