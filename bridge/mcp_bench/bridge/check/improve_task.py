"""Try an improvement task: does it measure what it should, on this machine?"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from random import Random

from mcp_bench.bridge.sandbox.runners.episode_sandboxes import EpisodeSandboxes
from mcp_bench.servers.errors import WrongUseError
from mcp_bench.servers.improve.benchmark import sandbox_spec
from mcp_bench.servers.improve.candidate import Candidate
from mcp_bench.servers.improve.estimate import BASELINE, REFERENCE, gain, progress, smallest_gain, value
from mcp_bench.servers.improve.held_out import REACHED
from mcp_bench.servers.improve.measure import CLOCKED, PARTS, measure
from mcp_bench.servers.improve.task_file import MODEL, ImproveTask, read_task

AGAIN, COPY = "the baseline again", "the reference again"
LEAST_SECONDS = 0.005
"""Of processor time: below, what an answer costs by itself (about 0.2 ms) is seen in the clock."""


@dataclass(frozen=True)
class Trial:
    """One measurement of the baseline, the reference, and a copy of each, on the same items."""

    baseline: float
    reference: float
    gain: float
    """Of the reference over the baseline: a log-ratio or a difference, by the metric's scale."""
    noise: float
    """Half the width of the interval of the gain of a program over itself."""
    seconds: float
    """Wall-clock time for one candidate."""
    problems: tuple[str, ...]


async def trials(folder: Path, repeats: int) -> AsyncIterator[Trial]:
    """Measure a task several times, on other data each time.

    Raises:
        BenchError: the folder is broken, a program of it fails, or no sandbox can be started.
    """
    task = checked(folder)
    lent = EpisodeSandboxes()
    try:
        programs = {
            BASELINE: task.baseline,
            REFERENCE: task.reference,
            AGAIN: task.baseline,
            COPY: task.reference,
        }
        spec = sandbox_spec(task)
        candidates = {
            name: Candidate(task, files, await lent.start(spec)) for name, files in programs.items()
        }
        for number in range(repeats):
            yield await _trial(task, candidates, Random(number), PARTS[number % 2])  # noqa: S311 - not for secrets
    finally:
        await lent.aclose()


def checked(folder: Path) -> ImproveTask:
    """Read a task with all of its parts, before anything runs.

    Raises:
        BenchError: the folder or its scorer is broken, a package is missing, or only a model of the operator
            answers.
    """
    task = read_task(folder)
    _ = task.scorer
    sandbox_spec(task)
    if task.definition.experiment.kind == "text" and not task.model:
        raise WrongUseError(
            f"{folder}: its prompts are answered by a model of the operator, and a check asks none. Give it "
            f"a {MODEL}, or record it: mcp-bench record --agent oracle --benchmark improve --path {folder} "
            f"--{task.definition.experiment.role}-model NAME"
        )
    return task


async def _trial(task: ImproveTask, candidates: dict[str, Candidate], rng: Random, part: str) -> Trial:
    metric, clock = task.definition.metric, task.definition.experiment.kind in CLOCKED
    began = time.monotonic()
    found = await measure(task, candidates, rng, part)
    seconds = (time.monotonic() - began) / len(candidates)
    problems = [f"{name} fails: {crash}" for name, crash in found.crashes.items()]
    values = {name: value(metric, found.values, name, clock=clock).value for name in found.values}
    least = smallest_gain(metric, found.values, clock=clock)
    best = gain(metric, found.values, REFERENCE, clock=clock)
    if best.low <= least:
        problems.append(
            "the reference is not better than the baseline by the least gain, with 95 % certainty"
        )
    noise = 0.0
    if AGAIN in found.values:
        same = gain(metric, found.values, AGAIN, clock=clock)
        noise = same.half_width
        if same.low > least:
            problems.append(
                "the baseline is called better than itself: raise min_gain, or the number of items"
            )
    if COPY in found.values and best.value > 0:
        way = progress(metric, found.values, COPY, clock=clock)
        if way.value < REACHED:
            problems.append(
                f"the reference reaches {way.value:.0%} of itself: the noise is too large for its gain"
            )
    if clock and values[BASELINE] < LEAST_SECONDS:
        problems.append(
            f"the baseline takes {values[BASELINE] * 1000:.1f} ms of processor time: make the inputs larger, "
            f"so that it takes {LEAST_SECONDS * 1000:.0f} ms or more"
        )
    return Trial(values[BASELINE], values[REFERENCE], best.value, noise, seconds, tuple(problems))
