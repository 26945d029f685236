"""Roll out a policy: groups of attempts at tasks, recorded and graded like those of any other agent."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from mcp_bench.recorder.paths import runs_dir
from mcp_bench.recorder.store.reader import RunReader, StoredEpisode
from mcp_bench.servers.errors import BenchError
from mcp_bench.trainer.loop.commands import record
from mcp_bench.trainer.loop.measuring import tasks as task_arguments
from mcp_bench.trainer.rl.algorithms import Attempt
from mcp_bench.trainer.rl.folder import RunSettings
from mcp_bench.trainer.rl.policy_server import Endpoint
from mcp_bench.trainer.rl.settings import RL
from mcp_bench.trainer.rl.tokens import Row, Sampled, make_rows, read_sampled

TRAIN = "train"


@dataclass(frozen=True)
class Rollouts:
    """Records attempts of the policy at `endpoint`."""

    endpoint: Endpoint
    model: str
    settings: RunSettings
    rl: RL

    def attempts(self, folder: Path, name: str, tasks: Sequence[str], seed: int) -> list[Attempt]:
        """Record groups of attempts, or resume that, and return them.

        Args:
            folder: the step's folder.
            name: of this recording within the step.
            tasks: one group for each.
            seed: of the worlds.

        Raises:
            StepFailedError: the recording was stopped.
            BenchError: a task is not one of `train`, or an answer has no tokens.
        """
        more = [*("--repeat", str(self.rl.attempts)), *("--seed", str(seed)), "--capture-llm"]
        run = self._record(folder, name, tasks, [f"temperature={self.rl.temperature}"], more)
        with RunReader(runs_dir() / run) as reader:
            return [read_attempt(reader, episode) for episode in reader.episodes()]

    def measure(self, folder: Path, name: str, tasks: Sequence[str]) -> str:
        """Record one greedy attempt at each task, and return the run."""
        return self._record(folder, name, tasks, ["temperature=0"], [])

    def _record(
        self, folder: Path, name: str, tasks: Sequence[str], options: Sequence[str], more: Sequence[str]
    ) -> str:
        given = [*options, f"max_tokens={self.rl.max_tokens}"]
        arguments = [
            *("--agent", "chat", "--base-url", self.endpoint.base_url, "--model", self.model),
            *(word for option in given for word in ("--agent-option", option)),
            *task_arguments(self.settings.benchmark, tasks, self.settings.jobs),
            *more,
        ]
        os.environ["OPENAI_API_KEY"] = self.endpoint.key  # a command line would show it
        return record(folder / f"{name}.begun", arguments, folder / "record.log")


def read_attempt(reader: RunReader, episode: StoredEpisode) -> Attempt:
    """Return an attempt with its reward. The reward counts only if the episode is valid and not tainted.

    Raises:
        BenchError: the episode is not of a training task, or its benchmark forbids training.
    """
    if episode.split != TRAIN or not episode.trainable:
        raise BenchError(f"{episode.task} is not a task to train on (split {episode.split})")
    sampled = read_sampled(reader, episode.id)
    valid = episode.invalid is None and episode.partial is not None and episode.taint != "tainted"
    cut = bool(sampled) and sampled[-1].cut
    return Attempt(
        episode=episode.id, task=episode.task, rows=tuple(trainable(sampled, cut)),
        reward=episode.partial if valid and sampled else None, strict=bool(episode.strict), cut=cut,
        calls=episode.calls,
    )  # fmt: skip


def trainable(sampled: Sequence[Sampled], cut: bool) -> list[Row]:
    """Return the rows. An answer that the limit cut off keeps its tokens, but is not learned from."""
    rows = make_rows(sampled)
    if cut:
        last = next(row for row in rows if _ends_with(row, sampled[-1]))
        kept = last.sampled.copy()
        kept[len(kept) - len(sampled[-1].tokens) :] = False
        rows[rows.index(last)] = replace(last, sampled=kept)
    return [row for row in rows if row.sampled.any()]


def _ends_with(row: Row, answer: Sampled) -> bool:
    tokens = np.asarray([*answer.prompt, *answer.tokens])
    return len(row.tokens) == len(tokens) and bool((row.tokens == tokens).all())
