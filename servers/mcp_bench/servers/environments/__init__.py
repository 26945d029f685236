"""Environments of benchmarks: packages that must not, or cannot, be installed next to mcp-bench.

A pinned list (`pins/NAME.toml`) names every package of one, so the same list is the same environment.
`mcp-bench benchmarks install NAME` builds it in the home, and `RemoteBenchmark` finds it there.
"""
