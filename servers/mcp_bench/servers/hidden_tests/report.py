"""The signed report of a test run, read on the trusted side."""

from __future__ import annotations

import hmac

from mcp_bench.servers.errors import SandboxError, SandboxLostError
from mcp_bench.servers.sandbox import Sandbox

OUTCOMES = ("passed", "skipped", "xfailed", "failed")
MOST_BYTES = 32 << 20


async def read_report(sandbox: Sandbox, path: str, key: bytes) -> dict[str, str] | None:
    """Return the outcome of each test by its id.

    None means that there is no report: pytest did not run, or did not come to its end, or somebody else
    wrote the file.
    """
    try:
        data = await sandbox.read(path, most=MOST_BYTES)
    except SandboxLostError:
        raise
    except SandboxError:
        return None
    signature, _, text = data.partition(b"\n")
    if not hmac.compare_digest(hmac.digest(key, text, "sha256").hex().encode(), signature):
        return None
    found: dict[str, str] = {}
    for line in text.decode("utf-8", "replace").split("\n"):  # a name has no newline, but can have U+2028
        outcome, _, name = line.partition(" ")
        if outcome in OUTCOMES:
            found[name] = outcome
    return found
