"""Runs the official conformance suite, which tests/node pins, and reads its results."""

from __future__ import annotations

import json
import os
import subprocess
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.support.agents.node_clis import MODULES, node_environ

SUITE = MODULES / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"
REVISIONS = ("2025-11-25", "2026-07-28")
SECONDS = 240
MCP_BENCH = "mcp_bench.bridge.cli.root"
Start = Callable[..., str]
"""Starts a Python program or module with arguments, and returns the URL that it prints."""


@dataclass(frozen=True)
class Check:
    """One check of one scenario. A scenario may make a check several times: `nth` counts from 0."""

    scenario: str
    id: str
    nth: int
    status: str
    message: str

    @property
    def key(self) -> tuple[str, str, int]:
        return (self.scenario, self.id, self.nth)


def run_suite(url: str, revision: str, folder: Path) -> list[Check]:
    """Run all server scenarios of `revision` against the server at `url`."""
    command = ["node", str(SUITE), "server", "--url", url, "--requirements", revision, "-o", str(folder)]
    subprocess.run(
        command, env=node_environ(folder.parent), capture_output=True, timeout=SECONDS, check=False
    )
    checks: list[Check] = []
    for path in sorted(folder.glob("*/checks.json")):
        # the folder is named `server-SCENARIO-TIME`, the time as 2026-01-31T01-02-03-456Z
        scenario = path.parent.name.removeprefix("server-")[: -len("-2026-01-31T01-02-03-456Z")]
        seen: Counter[str] = Counter()
        for check in json.loads(path.read_text()):
            name = check["id"]
            checks.append(Check(scenario, name, seen[name], check["status"], check.get("errorMessage") or ""))
            seen[name] += 1
    assert checks, f"the suite made no checks: see {os.fspath(folder)}"
    return checks


def failures(checks: list[Check]) -> list[Check]:
    return [check for check in checks if check.status == "FAILURE"]
