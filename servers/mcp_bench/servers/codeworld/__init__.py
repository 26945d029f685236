"""codeworld: work in a terminal, generated without end. Code, data, logs and repositories in a sandbox."""

from mcp_bench.servers.codeworld.benchmark import CodeWorld

BENCHMARK = CodeWorld()
