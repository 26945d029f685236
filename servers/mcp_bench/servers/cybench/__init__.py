"""cybench: capture-the-flag challenges from a folder of the user's (https://arxiv.org/abs/2408.08926)."""

from mcp_bench.servers.cybench.benchmark import Cybench

BENCHMARK = Cybench()
"""The benchmark `cybench`. Task ids are CHALLENGE.easy and CHALLENGE.hard."""
