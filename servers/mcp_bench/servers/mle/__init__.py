"""mle: machine-learning competitions on generated data, in a sandbox."""

from mcp_bench.servers.mle.benchmark import Mle

BENCHMARK = Mle()
"""The benchmark `mle`. Task ids are COMPETITION.SPLIT.NUMBER."""
