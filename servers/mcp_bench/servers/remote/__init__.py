"""Run benchmarks in a separate process, if needed with another Python.

Parent and worker exchange lines of JSON over a socket that the worker inherits. Standard output stays free,
since a benchmark may print. Requests are `{"id", "method", "params"}`; answers come in any order as
`{"id", "result"}` or `{"id", "error": {"kind", "text"}}`; `{"cancel": id}` cancels a request.
"""

from mcp_bench.servers.remote.benchmark import RemoteBenchmark

__all__ = ["RemoteBenchmark"]
