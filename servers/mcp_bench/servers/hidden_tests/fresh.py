"""Grading over the files that an agent left: commands in a fresh sandbox, when its processes have ended.

Both codeworld's checks and hidden tests use it.
"""

from __future__ import annotations

import secrets
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field

from mcp_bench.servers.contracts import JSON
from mcp_bench.servers.errors import SandboxError, SandboxLostError
from mcp_bench.servers.hidden_tests.report import read_report
from mcp_bench.servers.hidden_tests.tools import BIN, PLACE, tools
from mcp_bench.servers.sandbox import CommandResult, Sandbox

Files = Mapping[str, bytes]
TESTS = "/tests"
LOGS = "/logs/verifier"
OWN = "/mcp-bench"
"""For the key and the report. Containers have mounts in /run, so that one cannot be emptied."""
KEY = f"{OWN}/key"
PREPARE = f"rm -rf /logs {OWN} && mkdir -p -m 755 {LOGS} /logs/agent {OWN}"
REWARD_BYTES = 10_000


@dataclass(frozen=True)
class TestRun:
    """What a run of hidden tests came to."""

    outcomes: dict[str, str] | None
    """By test, from the signed report; None: there is none."""
    result: CommandResult
    rewards: dict[str, str] = field(default_factory=dict)
    """The reward files that the script wrote, by name."""


async def left(sandbox: Sandbox) -> list[JSON]:
    """End every process of the agent and return what it changed: path, kind, mode, size, SHA-256."""
    await sandbox.halt()
    return [change.model_dump(mode="json") for change in await sandbox.changes()]


async def run_tests(
    sandbox: Sandbox, script: str, tests: Files, *, folder: str, seconds: float, env: Mapping[str, str]
) -> TestRun:
    """Run a test script in a fresh sandbox. The tests enter only then, read-only.

    Args:
        script: name of the script in `tests`.
        folder: where it runs.

    Raises:
        SandboxError: the sandbox failed.
    """
    # scripts that install uv read this file
    await sandbox.renew({TESTS: tests, PLACE: tools(), "/root/.local/bin": {"env": b""}})
    given = {**env, "TEST_DIR": TESTS, "PYTHONDONTWRITEBYTECODE": "1"}
    words = " ".join(f"{key}={shlex.quote(value)}" for key, value in given.items())
    # over an agent's files, PATH begins with the system's folders, but can have the agent's behind them
    run_script = f'/usr/bin/env {words} PATH="{BIN}:$PATH" /bin/bash {TESTS}/{shlex.quote(script)}'
    command = f"cd {shlex.quote(folder)} && {run_script}"
    run = await signed_run(sandbox, command, seconds=seconds)
    if sandbox.over:
        return run
    for file in ("reward.json", "reward.txt"):
        try:
            found = await sandbox.read(f"{LOGS}/{file}", most=REWARD_BYTES)
        except SandboxLostError:
            raise
        except SandboxError:
            continue
        run.rewards[file] = found.decode("utf-8", "replace")
    return run


async def signed_run(sandbox: Sandbox, command: str, *, seconds: float) -> TestRun:
    """Run a command whose pytest signs its report, in a sandbox that has the tools; and read the report.

    Raises:
        SandboxError: the sandbox failed.
    """
    key, name = secrets.token_bytes(32), f"{OWN}/{secrets.token_hex(8)}"
    done = await sandbox.run(PREPARE)
    if done.code:
        raise SandboxError(f"the tests could not be prepared: {done.output[-200:]}")
    await sandbox.write(KEY, f"{name}\n{key.hex()}\n".encode(), mode=0o600)
    result = await sandbox.run(command, seconds=seconds)
    if sandbox.over:
        return TestRun(None, result)
    await sandbox.renew()  # what the tests' code left running must not write while this reads
    return TestRun(await read_report(sandbox, name, key), result)
