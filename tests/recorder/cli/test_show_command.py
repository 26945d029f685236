import json
from collections.abc import Callable

import pytest
from click.testing import Result
from hypothesis import given
from hypothesis import strategies as st

from mcp_bench.recorder.cli.show import show
from mcp_bench.recorder.store.run_folder import RunFolder
from mcp_bench.servers.errors import UnknownNameError, WrongUseError
from mcp_bench.servers.sanitize import sanitize
from tests.support.recorded import Episode, begin, planned, record, request, run_info

pytestmark = pytest.mark.unit

Invoke = Callable[..., Result]


def test_shows_an_episode_with_grade_and_conversation(invoke: Invoke) -> None:
    _, (episode,) = record([(planned(), Episode(partial=0.5, detail="balance is 3"))], model="m-1")
    result = invoke(show, episode)
    assert result.exit_code == 0, result.exception
    for text in (
        episode, "agentdojo user_task_0 (train, banking)", "oracle 1.0", "m-1", "partial 0.500, not solved",
        "FAIL objective sent: balance is 3", "Please do user_task_0.", 'transfer {"amount": 12.5}',
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
    assert "grade     none" in output


def test_a_run_lists_its_episodes(invoke: Invoke) -> None:
    folder, episodes = record([(planned("a"), Episode(partial=0.5)), (planned("b"), Episode())])
    output = invoke(show, folder.id).output
    assert [line.split()[0] for line in output.splitlines()[1:]] == episodes
    assert "partial 0.50, not solved" in output
    listed = json.loads(invoke(show, folder.id, "--json").stdout)
    assert [(row["id"], row["task"], row["calls"]) for row in listed] == [
        (episodes[0], "a", 1), (episodes[1], "b", 1),
    ]  # fmt: skip


def test_a_damaged_run_does_not_hide_other_runs(invoke: Invoke) -> None:
    """`show` without a name lists all runs."""
    assert "no recordings yet" in invoke(show).output
    folder, _ = record([(planned(), Episode())])
    damaged = folder.path.parent / "run_damaged"
    damaged.mkdir()
    (damaged / "recordings.db").write_bytes(b"not a database, " * 99)
    result = invoke(show, "--json")
    (run,) = json.loads(result.stdout)
    assert (run["id"], run["planned"], run["done"]) == (folder.id, 1, 1)
    assert result.exit_code == 1
    assert "run_damaged" in result.stderr


def test_a_unique_prefix_of_an_id_is_enough(invoke: Invoke) -> None:
    _, (first, second) = record([(planned("a"), Episode()), (planned("b"), Episode())])
    shared = next(first[:n] for n in range(len(first), 0, -1) if second.startswith(first[:n]))
    assert json.loads(invoke(show, first[: len(shared) + 1], "--json").stdout)["id"] == first
    ambiguous = invoke(show, shared).exception
    assert isinstance(ambiguous, WrongUseError)
    assert first in str(ambiguous)


def test_an_unknown_episode_suggests_similar_ids(invoke: Invoke) -> None:
    _, (episode,) = record([(planned(), Episode())])
    error = invoke(show, episode[:-1] + "!").exception
    assert isinstance(error, UnknownNameError)
    assert episode in str(error)


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
