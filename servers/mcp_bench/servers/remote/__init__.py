"""Benchmarks in a process, and where need be a Python, of their own.

The parent speaks the benchmark contract as lines of JSON over a socket that the worker inherits;
standard output stays free, since a benchmark may print. Requests are `{"id", "method", "params"}`,
answered in any order by `{"id", "result"}` or `{"id", "error": {"kind", "text"}}`; `{"cancel": id}`
stops one.
"""

from mcp_bench.servers.remote.benchmark import RemoteBenchmark

__all__ = ["RemoteBenchmark"]
