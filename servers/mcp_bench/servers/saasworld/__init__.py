"""saasworld: office work in a simulated company, generated without end.

`docs/saasworld.md` says what it is and how a task family is written.
"""

from mcp_bench.servers.saasworld.benchmark import API_BENCHMARK, BENCHMARK

__all__ = ["API_BENCHMARK", "BENCHMARK"]
