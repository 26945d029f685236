"""The recordings of a step: recorded once, found again after a kill, and resumed."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from secrets import token_hex
from typing import Any

from mcp_bench.bridge.roles.models import url_variable
from mcp_bench.recorder.atomic_file import write_atomic
from mcp_bench.recorder.errors import StorageError
from mcp_bench.recorder.paths import runs_dir
from mcp_bench.servers.errors import WrongUseError
from mcp_bench.servers.needs import ROLES
from mcp_bench.trainer.trial.commands import StepFailedError, run

RAY = "--ray"
AGAIN = ("--base-url", "--jobs", "--referees", "--address", "--max-cost")
"""Options of `record`, with values, that a resumed run does not have of itself. `RAY` is another.

The login of an endpoint's URL is not stored with a run."""
CHOSEN = (
    *("--agent", "--base-url", "--benchmark", "--config", "--config-schema", "--dry-run", "--jobs", "--json"),
    *("--limit", "--model", "--path", "--prompt", "--prompt-file", "--repeat", "--resume", "--seed"),
    *("--server", "--split", "--tag", "--task"),
)
"""Options of `record` that commands with recordings of their own choose themselves."""


class RunStoppedError(StepFailedError):
    """A recording was stopped before its end."""

    def __init__(self, stopped_by: str) -> None:
        super().__init__(f"recording was stopped ({stopped_by})")
        self.stopped_by = stopped_by


def record(
    marker: Path,
    arguments: Sequence[str],
    log: Path | None = None,
    check: Callable[[], None] | None = None,
    *,
    tagged: bool = False,
    run_command: Callable[..., Any] = run,
) -> str:
    """Record a run, or resume the one that this step has started, and return its id.

    Args:
        marker: file with the runs that existed before the step, and a tag for its own, to recognise it after
            a kill. It stays, since the caller can also be killed before it has stored the result.
        arguments: the arguments of `mcp-bench record`.
        log: file for its progress, in place of stderr.
        check: called when the recording has ended, before its result is looked at. It raises if the run says
            nothing, such as that of an engine that died.
        tagged: whether `arguments` have a tag already that is of this step alone. The user's own tag is not.
        run_command: `run`, or that of a `Recorder`.

    Raises:
        StepFailedError: the recording was stopped.
    """
    if not (begun := begun_since(marker)):
        # two loops may record the same with the same agent
        write_atomic(marker, json.dumps({"before": sorted(_existing()), "tag": f"step-{token_hex(4)}"}))
    if not tagged and (tag := json.loads(marker.read_text()).get("tag")):
        arguments = [*arguments, "--run-tag", tag]
    ours = [name for name in begun if _is_of(name, arguments)]
    _keep_logins(arguments)
    again = [word for flag in AGAIN for word in given(arguments, flag)]
    again += [RAY] if RAY in arguments else []
    command = ["record", "--resume", ours[0], *again] if len(ours) == 1 else ["record", *arguments]
    document = run_command([*command, "--json"], wrong=(1,), log=log)
    if check is not None:
        check()
    if document["stopped"]:
        raise RunStoppedError(document["stopped_by"])
    return str(document["run"])


def _keep_logins(arguments: Sequence[str]) -> None:
    """Keep the endpoints of roles for a resumed run: it has no options for them, and stores no login."""
    for role in ROLES:
        if words := given(arguments, f"--{role}-base-url"):
            os.environ[url_variable(role)] = words[1] if words[1:] else words[0].partition("=")[2]


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
