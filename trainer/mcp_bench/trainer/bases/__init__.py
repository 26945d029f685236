"""Base models on disk: fetched once by `mcp-bench train base`, found by name ever after, without a network.

base = find_base("smollm2-135m")    # a folder that transformers loads, or None
"""

from mcp_bench.trainer.bases.known import KNOWN, KnownBase
from mcp_bench.trainer.bases.places import find_base, located

__all__ = ["KNOWN", "KnownBase", "find_base", "located"]
