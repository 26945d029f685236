"""Run mcp-bench's own commands as subprocesses: users can repeat each step, and its memory is released."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from itertools import pairwise
from pathlib import Path
from secrets import token_hex
from tempfile import TemporaryFile
from typing import Any

import click

from mcp_bench.bridge.cli.settings_files import NO_FILES
from mcp_bench.recorder.atomic_file import write_atomic
from mcp_bench.recorder.errors import StorageError
from mcp_bench.recorder.paths import runs_dir
from mcp_bench.servers.errors import BenchError, FruitlessError, WrongUseError
from mcp_bench.servers.sanitize import sanitize_line
from mcp_bench.trainer.supervised_process import Stream, SupervisedProcess

MODULE = ("-m", "mcp_bench.bridge.cli.root")
STDERR = 2
AGAIN = ("--jobs", "--referees", "--engine", "--address", "--max-cost")
"""Options of `record` that a resumed run does not have of itself."""
CHOSEN = (
    *("--agent", "--base-url", "--benchmark", "--config", "--config-schema", "--dry-run", "--jobs", "--json"),
    *("--limit", "--model", "--path", "--prompt", "--prompt-file", "--repeat", "--resume", "--seed"),
    *("--server", "--split", "--tag", "--task"),
)
"""Options of `record` that commands with recordings of their own choose themselves."""


class StepFailedError(BenchError):
    """A command of a step failed; its output was shown above."""


class FruitlessStepError(StepFailedError, FruitlessError):
    """A command found nothing to work on, or a guard stopped it: trying again is no use."""


class RunStoppedError(StepFailedError):
    """A recording was stopped before its end."""

    def __init__(self, stopped_by: str) -> None:
        super().__init__(f"recording was stopped ({stopped_by})")
        self.stopped_by = stopped_by


def run(
    arguments: Sequence[str],
    *,
    wrong: Sequence[int] = (),
    launcher: Sequence[str] = (),
    log: Path | None = None,
) -> Any:
    """Run a command and return its JSON document, or None without `--json`. Other output goes to stderr.

    The command ends with this process.

    Args:
        arguments: the arguments of mcp-bench.
        wrong: exit codes other than 0 that are accepted.
        launcher: Python arguments before the module, such as those of torchrun.
        log: file to append other output to, in place of stderr.

    Raises:
        FruitlessStepError: it found nothing to work on.
        StepFailedError: it failed.
        KeyboardInterrupt: the user pressed Ctrl-C.
    """
    wants_json = "--json" in arguments
    if log is None:
        click.echo(f"$ mcp-bench {_shown(arguments)}", err=True)
    with TemporaryFile() as answer, nullcontext(STDERR) if log is None else log.open("ab") as stderr:
        # torchrun takes what follows -- as it is
        module = ("-m", "--", MODULE[1]) if launcher else MODULE
        argv = [sys.executable, *launcher, *module, *arguments]
        code = _exit_code(argv, answer if wants_json else stderr, stderr)
        answer.seek(0)
        return printed_document(arguments, code, answer.read(), wrong, log)


def printed_document(
    arguments: Sequence[str], code: int | None, printed: str | bytes, wrong: Sequence[int], log: Path | None
) -> Any:
    """Return the JSON document that a command has printed, or None without `--json`.

    Raises:
        FruitlessStepError: it found nothing to work on.
        StepFailedError: it failed.
    """
    document = json.loads(printed or "null")
    if code not in (0, *wrong) or ("--json" in arguments and document is None):
        said = "" if log is None else f": see {log}"
        kind = FruitlessStepError if code == FruitlessError.exit_code else StepFailedError
        raise kind(f"mcp-bench {arguments[0]} failed with exit code {code}{said}")
    return document


def _exit_code(argv: Sequence[str], stdout: Stream, stderr: Stream) -> int | None:
    with interrupt_later() as interrupted:  # else the command could start and get no signal
        process = SupervisedProcess(argv, {**os.environ, **NO_FILES}, Path.cwd(), stdout, stderr)
    try:
        if interrupted:
            raise KeyboardInterrupt
        return process.wait()
    except KeyboardInterrupt:
        process.interrupt()  # let it finish; a second Ctrl-C ends it at once
        process.wait()
        raise
    finally:
        process.end()


@contextmanager
def interrupt_later() -> Iterator[list[int]]:
    """Collect SIGINT instead of raising KeyboardInterrupt. In other threads than the main one, do nothing."""
    got = list[int]()
    if threading.current_thread() is not threading.main_thread():
        yield got
        return
    before = signal.signal(signal.SIGINT, lambda number, frame: got.append(number))
    try:
        yield got
    finally:
        signal.signal(signal.SIGINT, before)


def export(out: Path, arguments: Sequence[str]) -> dict[str, Any]:
    """Export training rows, replacing those of an earlier attempt. Return path, hash and row count."""
    run(["export", *arguments, "--out", str(out), "--force"])
    manifest = json.loads(out.with_name(f"{out.name}.manifest.json").read_text())
    return {"data": str(out), "sha256": manifest["sha256"], "rows": manifest["rows"]}


def record(
    marker: Path, arguments: Sequence[str], log: Path | None = None, check: Callable[[], None] | None = None,
    *, run: Callable[..., Any] = run,
) -> str:  # fmt: skip
    """Record a run, or resume the one that this step has started, and return its id.

    Args:
        marker: file with the runs that existed before the step, and a tag for its own, to recognise it after
            a kill. It stays, since the caller can also be killed before it has stored the result.
        arguments: the arguments of `mcp-bench record`.
        log: file for its progress, in place of stderr.
        check: called when the recording has ended, before its result is looked at. It raises if the run says
            nothing, such as that of an engine that died.
        run: runs the command: `run`, or that of a `Recorder`.

    Raises:
        StepFailedError: the recording was stopped.
    """
    if not (begun := begun_since(marker)):
        # two loops may record the same with the same agent
        write_atomic(marker, json.dumps({"before": sorted(_existing()), "tag": f"step-{token_hex(4)}"}))
    if "--run-tag" not in arguments and (tag := json.loads(marker.read_text()).get("tag")):
        arguments = [*arguments, "--run-tag", tag]
    ours = [name for name in begun if _is_of(name, arguments)]
    again = [word for flag in AGAIN for word in given(arguments, flag)]
    command = ["record", "--resume", ours[0], *again] if len(ours) == 1 else ["record", *arguments]
    document = run([*command, "--json"], wrong=(1,), log=log)
    if check is not None:
        check()
    if document["stopped"]:
        raise RunStoppedError(document["stopped_by"])
    return str(document["run"])


def begun_since(marker: Path) -> set[str]:
    """Return the runs that have begun since `record` wrote a marker; none if it has not."""
    with suppress(FileNotFoundError, ValueError):  # an incomplete file is older than the step's first run
        return _existing() - set(json.loads(marker.read_text())["before"])
    return set()


def _existing() -> set[str]:
    return {path.name for path in runs_dir().glob("run_*")}


def _is_of(run_id: str, arguments: Sequence[str]) -> bool:
    """Return whether a run has the requested agent, model, tasks and tag. Others may record, too."""
    with suppress(StorageError):  # such as one of others that was killed before it had a database
        return _has(runs_dir() / run_id, arguments)
    return False


def _has(run: Path, arguments: Sequence[str]) -> bool:
    from mcp_bench.recorder.runs.annotations import read_annotations
    from mcp_bench.recorder.runs.reader import RunReader

    options = dict(pairwise(arguments))
    tasks = {word for flag, word in pairwise(arguments) if flag == "--task"}
    if (tag := options.get("--run-tag")) is not None and tag not in read_annotations(run).tags:
        return False
    with RunReader(run) as reader:
        found = reader.summary()
        if found is None or found.model != options.get("--model"):
            return False
        # an agent of one's own over ACP is stored with its name: acp:NAME
        if options["--agent"] not in (found.agent, found.agent.partition(":")[0]):
            return False
        return set() < set(reader.planned_tasks()) <= tasks  # `record` leaves out those that cannot run


def refuse_own(record_options: Sequence[str], who: str, more: Sequence[str] = ()) -> None:
    """Refuse options of `record`, given after `--`, that a command chooses itself.

    Args:
        record_options: what was given.
        who: the command.
        more: what this command chooses besides `CHOSEN`.

    Raises:
        WrongUseError: there is one.
    """
    for word in record_options:
        if word.partition("=")[0] in (*CHOSEN, *more):
            raise WrongUseError(f"{word} after -- is chosen by {who} itself: leave it out")


def given(arguments: Sequence[str], flag: str) -> list[str]:
    """Return an option with its value, if it is there."""
    for place, word in enumerate(arguments):
        if word == flag:
            return list(arguments[place : place + 2])
        if word.startswith(f"{flag}="):
            return [word]
    return []


def _shown(arguments: Sequence[str]) -> str:
    """Return a command for display, with its tasks replaced by their number, and without its prompt."""
    words, tasks = [], 0
    rest = iter(arguments)
    for word in rest:
        if word == "--task":
            next(rest)
            tasks += 1
        elif word == "--prompt":
            next(rest)
            words += [word, "..."]
        else:
            words.append(word)
    return sanitize_line(" ".join([*words, *([f"--task ... ({tasks} tasks)"] if tasks else [])]))
