"""A task of one's own is tried before an agent starts: baseline and reference are measured once in a home."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from random import Random

from mcp_bench.servers.home import home
from mcp_bench.servers.improve.candidate import Candidate
from mcp_bench.servers.improve.estimate import BASELINE, REFERENCE, progress
from mcp_bench.servers.improve.kept import content_key
from mcp_bench.servers.improve.measure import CLOCKED, measure
from mcp_bench.servers.improve.packages import VERSION, versions
from mcp_bench.servers.improve.task_file import ImproveTask
from mcp_bench.servers.improve.versions import digest
from mcp_bench.servers.sandbox import Sandbox

FOLDER = "improve/tried"


async def try_once(task: ImproveTask, sandboxes: Mapping[str, Sandbox]) -> None:
    """Measure a task's baseline and reference, unless that was done in this home with the same files.

    Raises:
        BenchError: the scorer or one of the programs fails, or the reference is not better than the baseline.
    """
    place = mark(task)
    if place.exists():
        return
    programs = {BASELINE: task.baseline, REFERENCE: task.reference}
    candidates = {name: Candidate(task, files, sandboxes[name]) for name, files in programs.items()}
    found = await measure(task, candidates, Random("tried"), "search")  # noqa: S311 - not for secrets
    definition = task.definition
    progress(definition.metric, found.values, REFERENCE, clock=definition.experiment.kind in CLOCKED)
    place.parent.mkdir(parents=True, exist_ok=True)
    place.touch()


def mark(task: ImproveTask) -> Path:
    """Return the file that is there once the task was tried."""
    files = [digest(files) for files in (task.baseline, task.reference, task.readonly)]
    scorer = (task.folder / "scorer.py").read_text(encoding="utf-8")
    packages = versions(task.definition.experiment.packages)
    about = [task.definition.model_dump_json(), scorer, *files, task.model, VERSION, *packages]
    return home() / FOLDER / content_key(about)
