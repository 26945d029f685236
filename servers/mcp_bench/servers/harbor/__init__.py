"""harbor: task folders in the formats of Harbor and of Terminal-Bench 1."""

from mcp_bench.servers.harbor.benchmark import Harbor

BENCHMARK = Harbor()
"""The benchmark `harbor`. It needs a folder: `--path DIR`, or the name `harbor:DIR`."""
