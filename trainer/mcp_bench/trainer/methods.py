"""The names of the ways to train: listed once, for commands, settings and the Python API."""

from __future__ import annotations

from typing import Literal

Pairwise = Literal["dpo", "kto"]
"""From pairs of attempts."""
Method = Literal["sft", Pairwise]
"""The commands of `mcp-bench train` that train on files."""
Online = Literal["rft", "grpo", "dr-grpo", "rloo", "gspo", "cispo", "sdpo"]
"""From live attempts."""
Learning = Literal[Online, "opd"]
"""The algorithms of `mcp-bench train rl`: `opd` follows another model."""
Algorithm = Literal["sft", Pairwise, Online]
"""How later turns of the loop learn. `sft`: the base imitates the teacher and the best own attempts. `dpo`
and `kto`: the best model learns from pairs of its attempts. The others: the best model learns online, by
`train rl`."""
