"""The error for an agent's configuration file."""

from __future__ import annotations

from mcp_bench.servers.errors import BenchError


class UnreadableSettingsError(BenchError):
    """A configuration file cannot be parsed or safely edited, so it stays unchanged."""
