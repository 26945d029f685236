"""Check one benchmark: load it and read its first task."""

from __future__ import annotations

from collections.abc import Iterator

import anyio

from mcp_bench.bridge.doctor.finding import Check, Finding, info, ok, problem
from mcp_bench.bridge.doctor.run_checks import text_and_advice
from mcp_bench.servers.contracts import Benchmark, BenchmarkDefaults, with_defaults
from mcp_bench.servers.errors import MissingDependencyError
from mcp_bench.servers.registry import load


def benchmark_check(name: str) -> Check:
    """Return the check of one benchmark. A missing dependency is not a problem: few need every benchmark."""

    def run() -> Iterator[Finding]:
        try:
            benchmark: Benchmark = load("benchmark", name)
            parts = with_defaults(benchmark, BenchmarkDefaults)
            if (reason := parts.missing()) is not None:
                yield info("package", reason, parts.install and f"install it with: {parts.install}")
                return
            try:
                task = next(iter(benchmark.tasks(limit=1)), None)
            finally:
                anyio.run(benchmark.aclose)
        except MissingDependencyError as error:
            yield info("package", *text_and_advice(error))
            return
        if task is None:
            yield problem("tasks", f"version {benchmark.version} has no tasks", "report this to its author")
        else:
            yield ok("tasks", f"version {benchmark.version} works; its first task is {task.id}")

    return Check("benchmark", name, run)
