"""Whether an attribute of a benchmark is nearly named like one of the optional parts."""

from __future__ import annotations

from difflib import get_close_matches
from inspect import getattr_static

from mcp_bench.bridge.check.finding import Finding, judged
from mcp_bench.servers.contracts import Benchmark, BenchmarkDefaults, FindsInHome, GradesStates

PARTS = {
    name: default
    for optional in (BenchmarkDefaults, FindsInHome, GradesStates)
    for name, default in vars(optional).items()
    if not name.startswith("_")
}
NEAR = 0.8
"""Two thirds of a name is another name: `private` is not meant as `private_splits`."""


def names(benchmark: Benchmark) -> Finding:
    """Check that no attribute is nearly named like an optional part that the benchmark lacks.

    Such an attribute is never read, and the default counts in silence.
    """
    lacks = [name for name, default in PARTS.items() if getattr_static(benchmark, name, default) is default]
    warnings = [
        f"mcp-bench does not read {name!r}: did you mean {near[0]!r}?"
        for name in dir(benchmark)
        if name[0] != "_" and name not in PARTS and (near := get_close_matches(name, lacks, 1, NEAR))
    ]
    has = ", ".join(name for name in PARTS if name not in lacks)
    return judged("names", f"optional parts: {has or 'none'}", (), warnings)
