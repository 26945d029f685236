"""What a task demands of a solution: the tests that the shipped one passes, and doing nothing does not.

Both are found by playing them once in sandboxes, and are kept in the home of mcp-bench.
"""

from __future__ import annotations

import json
import os
from collections.abc import Awaitable, Callable
from hashlib import sha256
from pathlib import Path

from mcp_bench.servers.base_model import Model
from mcp_bench.servers.errors import SandboxError
from mcp_bench.servers.harbor.folder import TaskFolder
from mcp_bench.servers.harbor.solution import solution_calls
from mcp_bench.servers.hidden_tests.fresh import TestRun, left, run_tests
from mcp_bench.servers.home import home
from mcp_bench.servers.sandbox import Sandbox
from mcp_bench.servers.worlds.shell_world import ShellWorld

SCHEME = "4"
"""Changes with the way environments are made and tests are run."""
REWARD = "reward"
SHOWN = 400


class Demands(Model):
    """What an attempt must reach."""

    tests: tuple[str, ...]
    """Tests that the shipped solution passes. Empty: the task's script does not run pytest."""
    before: tuple[str, ...] = ()
    """Those of them that pass although nothing was done."""
    reward: float | None = None
    """What the script writes for the shipped solution, in Harbor's format."""


Opened = Callable[[], Awaitable[Sandbox]]
"""Starts a sandbox with the task's files."""


async def demands_of(task: TaskFolder, base: str, workdir: str, opened: Opened) -> Demands:
    """Return what a task demands; find it out if that is not known yet.

    Raises:
        SandboxError: the task is of no use: its own solution fails, or doing nothing passes; or its tests did
            not end in time.
    """
    kept = home() / "harbor" / "demands"
    key = sha256(f"{SCHEME} {base} {task.digest()}".encode()).hexdigest()
    file = kept / f"{key}.json"
    if file.is_file():
        return Demands.model_validate_json(file.read_bytes())
    found = await _measured(task, workdir, opened)
    kept.mkdir(mode=0o700, parents=True, exist_ok=True)
    _replace(file, json.dumps(found.model_dump(mode="json")))
    return found


async def _measured(task: TaskFolder, workdir: str, opened: Opened) -> Demands:
    nothing = await _graded(task, workdir, await opened())
    sandbox = await opened()
    reference, world = solution_calls(task), ShellWorld(sandbox)
    assert reference is not None  # noqa: S101 - the caller has looked
    printed = ""
    for call in reference.calls:
        printed = (await world.call(call.name, call.arguments)).text
    solved = await _graded(task, workdir, sandbox)
    words = f"It printed: {printed[-SHOWN:]!r}. The tests printed: {solved.result.output[-SHOWN:]!r}"
    before, reward = passed(nothing), reward_of(solved)
    tests = passed(solved)
    if solved.outcomes is None and (task.format == "terminal-bench" or reward is None):
        raise SandboxError(
            f"task {task.id!r} cannot be graded here: its script reports no test of pytest. {words}"
        )
    if task.format == "harbor" and not reward:
        raise SandboxError(f"task {task.id!r} is of no use here: its own solution earns nothing. {words}")
    if solved.outcomes is not None and not tests:
        raise SandboxError(f"task {task.id!r} is of no use here: its own solution passes no test. {words}")
    failed = [name for name, outcome in (solved.outcomes or {}).items() if outcome == "failed"]
    if failed and (task.format == "terminal-bench" or (reward or 0) < 1):
        raise SandboxError(
            f"task {task.id!r} is of no use here: its own solution fails {', '.join(failed[:3])}. {words}"
        )
    same = reward == reward_of(nothing) if task.format == "harbor" else True
    if same and set(tests) <= set(before):
        raise SandboxError(f"task {task.id!r} is of no use here: doing nothing passes its tests")
    return Demands(tests=tests, before=tuple(name for name in tests if name in before), reward=reward)


async def _graded(task: TaskFolder, workdir: str, sandbox: Sandbox) -> TestRun:
    await left(sandbox)
    run = await tested(task, workdir, sandbox)
    if run.result.timed_out:  # this can be the machine's fault: nothing is kept
        raise SandboxError(
            f"task {task.id!r} cannot be graded here: its tests did not end within {_seconds(task):.0f} s"
        )
    return run


async def tested(task: TaskFolder, workdir: str, sandbox: Sandbox) -> TestRun:
    """Run the hidden tests of a task over the files in a sandbox."""
    return await run_tests(
        sandbox, task.script, task.tests, folder=workdir, seconds=_seconds(task), env=task.test_env
    )


def _seconds(task: TaskFolder) -> float:
    return task.seconds("test", 600)


def passed(run: TestRun) -> tuple[str, ...]:
    return tuple(name for name, outcome in (run.outcomes or {}).items() if outcome == "passed")


def reward_of(run: TestRun) -> float | None:
    """Return the reward that the script of a Harbor task wrote: the key `reward`, or the only number."""
    try:
        if (text := run.rewards.get("reward.json")) is not None:
            found = json.loads(text)
            found = found.get(REWARD, next(iter(found.values()), None)) if isinstance(found, dict) else found
        else:
            found = run.rewards.get("reward.txt", "").strip()
        number = float(found)
    except (ValueError, TypeError, AttributeError, RecursionError):
        return None
    return number if abs(number) < float("inf") else None


def _replace(file: Path, text: str) -> None:
    beside = file.with_suffix(f".{os.getpid()}.part")
    beside.write_text(text, encoding="utf-8")
    beside.replace(file)
