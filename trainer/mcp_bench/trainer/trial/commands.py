"""Run mcp-bench's own commands as subprocesses: users can repeat each step, and its memory is released."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from tempfile import TemporaryFile
from textwrap import shorten
from typing import Any

import click

from mcp_bench.bridge.cli.settings.settings_files import NO_FILES
from mcp_bench.bridge.model_endpoint.url import is_http_url, without_secrets
from mcp_bench.servers.errors import BenchError, FruitlessError
from mcp_bench.servers.terminal.sanitize import sanitize_line
from mcp_bench.trainer.supervised_process import Stream, SupervisedProcess

MODULE = ("-m", "mcp_bench.bridge.cli.root")
STDERR = 2
SHOWN = 200
"""Characters of what a command printed in place of a document."""


class StepFailedError(BenchError):
    """A command of a step failed; its output was shown above."""


class FruitlessStepError(StepFailedError, FruitlessError):
    """A command found nothing to work on, or a guard stopped it: trying again is no use."""


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
        StepFailedError: it failed, or printed something else.
    """
    try:
        document = json.loads(printed or "null")
    except ValueError as error:  # --help prints something else, and a benchmark's own code can
        document = None
        if code in (0, *wrong):
            text = printed.decode(errors="replace") if isinstance(printed, bytes) else printed
            begins = shorten(sanitize_line(text), SHOWN, placeholder=" ...")
            raise StepFailedError(
                f"mcp-bench {arguments[0]} printed more than a JSON document: {begins}"
            ) from error
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


@contextmanager
def with_variables(values: Mapping[str, str]) -> Iterator[None]:
    """Set variables for the commands that are started meanwhile."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def export(out: Path, arguments: Sequence[str]) -> dict[str, Any]:
    """Export training rows, replacing those of an earlier attempt. Return path, hash and row count.

    Rows that leak into a held-out split are left out: one of them would end hours of work.
    """
    run(["export", *arguments, "--on-leak", "drop", "--out", str(out), "--force"])
    manifest = json.loads(out.with_name(f"{out.name}.manifest.json").read_text())
    return {"data": str(out), "sha256": manifest["sha256"], "rows": manifest["rows"]}


def _shown(arguments: Sequence[str]) -> str:
    """Return a command for display, with its tasks replaced by their number, without prompt and logins."""
    words, tasks = [], 0
    rest = iter(arguments)
    for word in rest:
        if word == "--task":
            next(rest)
            tasks += 1
        elif word == "--prompt":
            next(rest)
            words += [word, "..."]
        elif word.endswith("-base-url"):
            words += [word, _address(next(rest, ""))]
        elif (option := word.partition("="))[0].endswith("-base-url"):
            words.append(f"{option[0]}={_address(option[2])}")
        else:
            words.append(word)
    return sanitize_line(" ".join([*words, *([f"--task ... ({tasks} tasks)"] if tasks else [])]))


def _address(url: str) -> str:
    return without_secrets(url) if is_http_url(url) else url
