"""Run all checks and decide whether recording can work."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from mcp_bench.bridge.doctor.agent import agent_check
from mcp_bench.bridge.doctor.benchmark import benchmark_check
from mcp_bench.bridge.doctor.finding import Check, Finding
from mcp_bench.bridge.doctor.machine import machine_checks
from mcp_bench.bridge.doctor.runners import runner_checks
from mcp_bench.bridge.doctor.subprocess_checks import run_checks_in_subprocess
from mcp_bench.plugins.needs import needs_of
from mcp_bench.servers.errors import UnknownNameError
from mcp_bench.servers.registry import load, registered


@dataclass(frozen=True)
class Diagnosis:
    results: list[tuple[Check, list[Finding]]]
    named: tuple[str, ...]
    """Agents that the user named; empty for all."""

    def working(self, kind: str) -> list[str]:
        """Return the benchmarks or agents that have an `ok`, no problem and nothing unset."""
        return [
            check.subject
            for check, findings in self.results
            if check.kind == kind
            and any(finding.level == "ok" for finding in findings)
            and not any(finding.level in ("problem", "unset") for finding in findings)
        ]

    @property
    def troubled(self) -> list[str]:
        """The subjects of any kind that have a problem."""
        found = [check.subject for check, findings in self.results if any(map(is_problem, findings))]
        return list(dict.fromkeys(found))

    @property
    def agents(self) -> list[str]:
        """Agents that can be recorded now; without names, only those that use a model."""
        found = self.working("agent")
        return found if self.named else [name for name in found if uses_model(name)]

    @property
    def well(self) -> bool:
        machine = {check.subject for check, _ in self.results if check.kind == "machine"}
        if machine & set(self.troubled):
            return False
        if self.named:
            return set(self.named) <= set(self.agents)
        return bool(self.working("benchmark") and self.agents)

    def verdict(self) -> str:
        if self.well:
            return f"Ready: {', '.join(self.agents)}."
        text = f"Not ready. Problems: {', '.join(self.troubled)}."
        if not self.troubled:
            text = "No agent that uses a model is ready: install one, or log in to one."
        if not self.named and "oracle" in self.working("agent"):
            text += " The oracle needs none: mcp-bench record --agent oracle --limit 3"
        return text

    def document(self) -> dict[str, Any]:
        """Return everything as JSON: `well`, the agents that are `ready`, and all `findings`."""
        findings = [
            {"kind": check.kind, "subject": check.subject, **asdict(finding)}
            for check, found in self.results
            for finding in found
        ]
        return {"well": self.well, "ready": self.agents, "findings": findings}


def is_problem(finding: Finding) -> bool:
    return finding.level == "problem"


def uses_model(name: str) -> bool:
    needs = needs_of(load("agent", name))
    return needs is None or needs.model


def diagnose(named: Sequence[str], base_url: str | None, command: str | None, seconds: float) -> Diagnosis:
    """Run all checks, or with names those of the machine and the named agents. No process is left afterwards.

    Raises:
        UnknownNameError: there is no such agent.
        BenchError: a plugin's code crashed.
    """
    known = registered("agent")
    for name in named:
        if name not in known:
            raise UnknownNameError("agent", name, known, see="mcp-bench agents")
    checks = [*machine_checks(), *runner_checks(seconds)]
    checks += [] if named else map(benchmark_check, registered("benchmark"))
    checks += [
        agent_check(name, os.environ, named=name in named, base_url=base_url, command=command)
        for name in (dict.fromkeys(named) if named else known)
    ]
    found = run_checks_in_subprocess(checks, seconds)
    return Diagnosis(list(zip(checks, found, strict=True)), tuple(named))
