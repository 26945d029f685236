"""Benchmarks whose packages are extras. Only their worker processes import the packages."""

from mcp_bench.servers.remote import RemoteBenchmark

GYMNASIUM = RemoteBenchmark(
    "gymnasium",
    "mcp_bench.servers.adapters.gymnasium_text:BENCHMARK",
    version="1",
    summary="FrozenLake (firm and slippery) and Taxi, against the best policy.",
    install='pip install "mcp-bench-kit[gymnasium]"',
)
