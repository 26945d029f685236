"""Check the machines that the operator lends to sandboxes: each starts one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial

import anyio

from mcp_bench.bridge.doctor.finding import Check, Finding, hint, ok, problem
from mcp_bench.bridge.sandbox.runners.configured import VARIABLE, Runner, configured, tried
from mcp_bench.servers.errors import BenchError
from mcp_bench.servers.sandbox import Enforced

SPARE_SECONDS = 2.0
"""That are left for the others' results when one is late."""
ADVICE = "follow the advice in docs/security/sandbox.md, or leave it out of the file"


def runner_checks(seconds: float) -> list[Check]:
    """Return the check of the runners, if a file names any. It may take so long."""
    return [Check("machine", "runners", partial(runners, seconds))] if os.environ.get(VARIABLE) else []


def runners(seconds: float) -> Iterator[Finding]:
    """Start a sandbox on each machine, all at the same time. One that is late hides no other."""
    try:
        listed = configured()
    except BenchError as error:
        yield problem("file", str(error), f"mend the file that {VARIABLE} names, or unset it")
        return
    for runner in listed:  # said first: a check that is late keeps what it has found
        if runner.kind == "slurm":
            yield ok(runner.name, "asks Slurm for a node, and waits in its queue; --timeout is how long")
    found = anyio.run(outcomes, listed, max(seconds - SPARE_SECONDS, seconds / 2))
    nowhere = not any(isinstance(outcome, Enforced) for outcome in found.values())
    for runner in listed:
        outcome = found[runner.name]
        if isinstance(outcome, BenchError):
            yield (problem if nowhere else hint)(runner.name, str(outcome), ADVICE)
        elif outcome.sound:
            slots = f"{runner.slots} slot{'s' if runner.slots > 1 else ''}"
            yield ok(runner.name, f"{runner.kind}, {slots}: bwrap {outcome.version}, {outcome.user}")
        else:
            failed = ", ".join(probe for probe, refused in outcome.probes.items() if not refused)
            yield hint(
                runner.name, f"a sandbox there lets through: {failed}", "its episodes are not verified"
            )


async def outcomes(listed: tuple[Runner, ...], seconds: float) -> dict[str, Enforced | BenchError]:
    """Return by name what a sandbox there enforces, or why there was none within so many seconds."""
    found: dict[str, Enforced | BenchError] = {}

    async def one(runner: Runner) -> None:
        try:
            with anyio.fail_after(seconds):
                found[runner.name] = await tried(runner)
        except TimeoutError:
            found[runner.name] = BenchError(f"no answer within {seconds:g} s: raise --timeout")
        except BenchError as error:
            found[runner.name] = error

    async with anyio.create_task_group() as group:
        for runner in listed:
            group.start_soon(one, runner)
    return found
