"""Refused attempts are stored with the episode of the agent that made them, and shown."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from click.testing import Result

from mcp_bench.recorder.cli.show import show
from mcp_bench.recorder.runs.reader import RunReader
from mcp_bench.recorder.runs.run_folder import RunFolder
from mcp_bench.recorder.store.recording import MAX_FLAGS
from tests.support.recorded import Episode, play

pytestmark = pytest.mark.system

Invoke = Callable[..., Result]


def test_a_flag_is_shown_with_its_episode(folder: RunFolder, episode: str, invoke: Invoke) -> None:
    folder.recording.flag(episode, "wrong_token", "by process 7 (\x1b[2Jsh)")
    folder.recording.flag(None, "foreign_peer", "by process 8")
    shown = json.loads(invoke(show, episode, "--json").stdout)["flags"]
    assert [(flag["episode"], flag["kind"]) for flag in shown] == [(episode, "wrong_token")]
    human = invoke(show, episode).stdout
    assert "wrong_token: by process 7 (\\x1b[2Jsh)" in human
    assert "process 8" not in human


def test_a_sealed_episode_gets_no_flags(folder: RunFolder) -> None:
    episode = play(folder, folder.info.plan[0], Episode())
    folder.recording.flag(episode, "replay", "by process 7")
    assert folder.recording.flags(episode) == []
    (flag,) = folder.recording.flags(None)
    assert (flag.kind, flag.detail) == ("replay", f"by process 7 (after the end of {episode})")


def test_endless_attempts_do_not_fill_the_disk(folder: RunFolder, episode: str) -> None:
    for number in range(MAX_FLAGS + 10):
        folder.recording.flag(episode, "wrong_token", f"try {number}")
    folder.recording.flag(episode, "replay", "another kind")
    with RunReader(folder.path) as reader:
        kept = [(flag.kind, flag.detail) for flag in reader.flags(episode)]
    assert kept == [("wrong_token", f"try {number}") for number in range(MAX_FLAGS)] + [
        ("replay", "another kind")
    ]
