"""Look for a worker's packages without starting the worker."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from importlib.util import find_spec

PROBE = "import sys, importlib.util as u; print(*(n for n in sys.argv[1:] if u.find_spec(n) is None))"
PROBE_SECONDS = 30.0
OURS = ("mcp_bench", "pydantic", "anyio")
"""What every worker imports."""


def lacking(python: str, packages: Sequence[str]) -> str | None:
    """Return why an interpreter cannot run a worker, or None if it can.

    Args:
        packages: top-level modules that the benchmark imports.
    """
    if python == sys.executable:
        missing = [name for name in packages if find_spec(name) is None]
    else:
        command = [python, "-s", "-P", "-c", PROBE, *OURS, *packages]
        try:
            probe = subprocess.run(command, capture_output=True, text=True, timeout=PROBE_SECONDS)
        except (OSError, subprocess.SubprocessError) as error:
            return f"cannot start the Python {python!r}: {error}"
        if probe.returncode:
            last = probe.stderr.strip().splitlines() or [f"exit code {probe.returncode}"]
            return f"the Python {python!r} cannot run a worker: {last[-1]}"
        missing = probe.stdout.split()
    return f"the Python {python!r} has no package {', '.join(map(repr, missing))}" if missing else None
