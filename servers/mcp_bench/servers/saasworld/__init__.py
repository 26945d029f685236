"""saasworld: an unlimited supply of generated office tasks in a simulated company.

`docs/benchmarks/saasworld.md` describes the benchmark and how to write a task family.
"""

from mcp_bench.servers.saasworld.benchmark import API_BENCHMARK, BENCHMARK

__all__ = ["API_BENCHMARK", "BENCHMARK"]
