"""That of `speedrun`: the model is computed on the trusted side, without a GPU."""

from mcp_bench.servers.improve.tasks.speedrun.scorer import check, question

__all__ = ["check", "question"]
