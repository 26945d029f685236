"""proofs: theorems to prove in Coq, in a sandbox."""

from mcp_bench.servers.proofs.benchmark import Proofs

BENCHMARK = Proofs()
"""The benchmark `proofs`. A task's id is the name of its file in `problems/`."""
