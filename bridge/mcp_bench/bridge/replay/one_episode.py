"""The replay of one episode, with the effect of each call, for those who look at it.

It is the same replay that `export --steps` makes. The result reveals the grade, so it stays in memory.
"""

from __future__ import annotations

import threading
from contextlib import closing
from functools import lru_cache
from pathlib import Path

from mcp_bench.bridge.replay.step_labels import labels
from mcp_bench.recorder.export.steps import Replayed
from mcp_bench.recorder.runs.reader import RunReader

_one_at_a_time = threading.Lock()


def replay_of(path: Path, episode: str) -> Replayed:
    """Replay an episode of the run in a folder. One replay runs at a time.

    Recent replays of episodes that have ended are kept.

    Raises:
        BenchError: it cannot be replayed here, or its benchmark does not report its assertions. That is not
            kept: the cause can go away.
    """
    with RunReader(path) as reader:
        goes_on = reader.episode(episode).ended_us is None  # more calls may follow
    with _one_at_a_time:
        return _replayed(path, episode) if goes_on else _kept(path, episode)


def _replayed(path: Path, episode: str) -> Replayed:
    with RunReader(path) as reader:
        stored = reader.episode(episode)
    with closing(labels([(path, stored)])) as replays:
        return next(replays)


_kept = lru_cache(maxsize=64)(_replayed)
