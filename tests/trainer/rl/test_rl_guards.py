"""Guards stop a run that collapses, and let a sound one go on."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mcp_bench.trainer.rl.credit.algorithms import Attempt
from mcp_bench.trainer.rl.guards import CollapsedError, InvalidEpisodesError, Watch
from mcp_bench.trainer.rl.learner import Figures
from mcp_bench.trainer.rl.settings import Guards

pytestmark = pytest.mark.unit

SOUND = Figures(
    tokens=100, loss=0.1, gradient=1.0, entropy=0.5, mismatch=1e-7, distrusted=0.0, clipped=0.0, kl=0.01
)
ATTEMPT = Attempt("ep_1", "task", (), 0.5, earned=0.5, calls=2)
TEN = [ATTEMPT] * 10


def test_a_sound_run_goes_on() -> None:
    watch = Watch(Guards())
    for _ in range(40):
        watch.check_attempts(TEN, flat=0.5)
        watch.check_update(SOUND, TEN)
    watch.check_update(replace(SOUND, kl=0.2), TEN)  # far from its median, and still near the start
    watch.check_canaries([replace(ATTEMPT, reward=0.0, earned=0.0)])


@pytest.mark.parametrize(
    ("attempts", "words", "error"),
    [
        (
            [replace(ATTEMPT, reward=None, invalid=True)] * 2 + TEN,
            "2 of 12 episodes are invalid",
            InvalidEpisodesError,
        ),
        (  # tainted ones are not attempted again
            [replace(ATTEMPT, reward=None)] * 2 + TEN,
            "2 of 12 episodes are invalid",
            CollapsedError,
        ),
        (
            [replace(ATTEMPT, reward=None, rows=())] * 8 + TEN,
            "8 of 18 episodes are invalid; in 8, the policy gave no answer: is its context too short",
            CollapsedError,
        ),
        (
            [replace(ATTEMPT, cut=True)] * 5 + TEN,
            "5 of 15 attempts were ended by a limit of tokens",
            CollapsedError,
        ),
        ([replace(ATTEMPT, calls=0)] * 10, "tool use dies", CollapsedError),
    ],
)
def test_what_was_rolled_out_stops_a_run(attempts: list[Attempt], words: str, error: type[Exception]) -> None:
    watch = Watch(Guards())
    watch.check_attempts(TEN, flat=0.0)
    with pytest.raises(error, match=words) as caught:
        watch.check_attempts(attempts, flat=0.0)
    assert "mcp-bench show ep_1" in str(caught.value)


@pytest.mark.parametrize(("strict", "way"), [(True, "easy"), (False, "hard")])
def test_flat_groups_stop_a_run_once_they_last(strict: bool, way: str) -> None:
    watch = Watch(Guards())
    attempts = [replace(ATTEMPT, strict=strict)] * 4
    for _ in range(9):
        watch.check_attempts(attempts, flat=1.0)
    restored = Watch(Guards())
    restored.restore(watch.state())
    with pytest.raises(CollapsedError, match=f"too {way} to learn from"):
        restored.check_attempts(attempts, flat=1.0)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"mismatch": 0.01}, r"engine and trainer differ .* \(rl\.guards\.mismatch is 0\.001\)"),
        ({"mismatch": float("nan")}, "engine and trainer differ"),
        ({"entropy": 0.01}, "entropy is 0.02 times"),
        ({"entropy": 5.0}, "entropy is 10.00 times"),
        ({"kl": 0.21}, "KL divergence"),
    ],
)
def test_what_an_update_did_stops_a_run(change: dict[str, float], words: str) -> None:
    watch = Watch(Guards())
    for _ in range(12):
        watch.check_update(SOUND, TEN)
    with pytest.raises(CollapsedError, match=words):
        watch.check_update(replace(SOUND, **change), TEN)


def test_a_teacher_is_measured_before_it_is_followed() -> None:
    watch = Watch(Guards())
    assert not watch.check_gap(None, TEN)  # no attempt of the step was solved
    assert watch.check_gap(0.1, TEN)
    assert watch.check_gap(None, TEN)
    with pytest.raises(CollapsedError, match=r"teacher is worse than the policy: tokens of .* 0.050 nats"):
        Watch(Guards()).check_gap(-0.05, TEN)


def test_a_teacher_that_becomes_worse_stops_a_run() -> None:
    watch = Watch(Guards(gap_steps=3))
    for gap in (0.1, -0.3):  # one bad step is noise
        assert watch.check_gap(gap, TEN)
    restored = Watch(Guards(gap_steps=3))
    restored.restore(watch.state())
    with pytest.raises(CollapsedError, match=r"0\.100 nats less"):
        restored.check_gap(-0.1, TEN)


@pytest.mark.parametrize("reward", [0.5, None])
def test_a_canary_that_was_solved_stops_a_run(reward: float | None) -> None:
    """Also by an attempt that was tainted: it has no reward."""
    earned = replace(ATTEMPT, reward=reward)
    with pytest.raises(CollapsedError, match="a canary task gave a reward"):
        Watch(Guards()).check_canaries([replace(ATTEMPT, reward=0.0, earned=0.0), earned])
