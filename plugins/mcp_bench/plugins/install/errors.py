"""What can be wrong with an agent's configuration."""

from __future__ import annotations

from mcp_bench.servers.errors import BenchError


class UnreadableSettingsError(BenchError):
    """A configuration file cannot be understood, so it is not touched."""
