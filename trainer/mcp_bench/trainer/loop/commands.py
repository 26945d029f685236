"""Runs mcp-bench's own commands: each step is what a user would type, and its memory is gone after it."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import click

from mcp_bench.recorder.paths import runs_dir
from mcp_bench.servers.errors import BenchError
from mcp_bench.servers.sanitize import sanitize_line
from mcp_bench.trainer.supervised_process import Stream, SupervisedProcess

MODULE = ("-m", "mcp_bench.bridge.cli.root")
STDERR = 2


class StepFailedError(BenchError):
    """A command of a step did not do what it was to do; its own words stand above."""


def run(arguments: Sequence[str], *, wrong: Sequence[int] = (), launcher: Sequence[str] = ()) -> Any:
    """Run a command; return its JSON document, where it was asked for one. What it says goes to our stderr.

    `wrong` are exit codes beside 0 that may come with a document as well. `launcher` are arguments of Python
    that start the command's module, where it is not Python alone. Whatever ends us ends it, too.

    Raises:
        StepFailedError: it ended otherwise.
        KeyboardInterrupt: it was stopped, as we were.
    """
    click.echo(f"$ mcp-bench {_shown(arguments)}", err=True)
    asked = "--json" in arguments
    with TemporaryFile() as answer:
        argv = [sys.executable, *launcher, *MODULE, *arguments]
        code = _exit_code(argv, answer if asked else STDERR)
        answer.seek(0)
        document = json.loads(answer.read() or "null")
    if code not in (0, *wrong) or (asked and document is None):
        raise StepFailedError(f"mcp-bench {arguments[0]} ended with exit code {code}")
    return document


def _exit_code(argv: Sequence[str], stdout: Stream) -> int | None:
    process = SupervisedProcess(argv, os.environ, Path.cwd(), stdout, STDERR)
    try:
        return process.wait()
    except KeyboardInterrupt:
        process.interrupt()  # once, and it has all the time it takes; a second Ctrl-C ends it
        process.wait()
        raise
    finally:
        process.end()


def export(out: Path, arguments: Sequence[str]) -> dict[str, Any]:
    """Write training rows, in place of those of an earlier try; return where, how many, and their hash."""
    run(["export", *arguments, "--out", str(out), "--force"])
    manifest = json.loads(out.with_name(f"{out.name}.manifest.json").read_text())
    return {"data": str(out), "sha256": manifest["sha256"], "rows": manifest["rows"]}


def record(marker: Path, arguments: Sequence[str]) -> str:
    """Record a run, or go on with the one that was begun for the same step; return its id.

    `marker` keeps which runs there were before: if we are killed, the one that is new is ours.

    Raises:
        StepFailedError: it was stopped.
    """
    there = {path.name for path in runs_dir().glob("run_*")}
    if marker.is_file():
        begun = there - set(json.loads(marker.read_text())["before"])
        ours = [name for name in begun if _is_of(name, arguments)]
    else:
        ours = []
        marker.write_text(json.dumps({"before": sorted(there)}))
    command = ["record", "--resume", ours[0], *_jobs(arguments)] if len(ours) == 1 else ["record", *arguments]
    document = run([*command, "--json"], wrong=(1,))
    if document["stopped"]:
        raise StepFailedError(f"recording stopped ({document['stopped_by']})")
    marker.unlink()
    return str(document["run"])


def _is_of(run_id: str, arguments: Sequence[str]) -> bool:
    """Say whether a run has the agent, the model and exactly the tasks that we ask for: another recording may
    have begun meanwhile."""
    from mcp_bench.recorder.store.reader import RunReader

    asked = dict(pairwise(arguments))
    tasks = {word for flag, word in pairwise(arguments) if flag == "--task"}
    with RunReader(runs_dir() / run_id) as reader:
        there = reader.summary()
        if there is None or (there.agent, there.model) != (asked["--agent"], asked.get("--model")):
            return False
        return reader.planned_tasks() == tasks


def _jobs(arguments: Sequence[str]) -> list[str]:
    place = list(arguments).index("--jobs")
    return list(arguments[place : place + 2])


def _shown(arguments: Sequence[str]) -> str:
    """Return a command with its many tasks counted."""
    words, tasks = [], 0
    rest = iter(arguments)
    for word in rest:
        if word == "--task":
            next(rest)
            tasks += 1
        else:
            words.append(word)
    return sanitize_line(" ".join([*words, *([f"--task ... ({tasks} tasks)"] if tasks else [])]))
