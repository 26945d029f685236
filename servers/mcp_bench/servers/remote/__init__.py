"""Run benchmarks in a separate process, if needed with another Python.

Parent and worker exchange lines of JSON over a socket that the worker inherits. Standard output stays free,
since a benchmark may print. Requests are `{"id", "method", "params"}`; answers come in any order as
`{"id", "result"}` or `{"id", "error": {"kind", "text"}}`; `{"cancel": id}` cancels a request. While a request
runs, the worker can send `{"id", "ask": number, "params"}`, a question to its host; the answer is
`{"ask": number, "result"}` or `{"ask": number, "error"}`.
"""

from mcp_bench.servers.remote.benchmark import RemoteBenchmark

__all__ = ["RemoteBenchmark"]
