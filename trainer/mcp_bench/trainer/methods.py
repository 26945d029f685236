"""The names of the ways to train: listed once, for commands, settings and the Python API."""

from __future__ import annotations

from typing import Literal

Pairwise = Literal["dpo", "kto"]
"""From pairs of attempts."""
Method = Literal["sft", Pairwise]
"""The commands of `mcp-bench train` that train on files."""
Imitation = Literal["sft", "rft"]
"""A turn of the loop that trains the base on good attempts."""
Online = Literal["grpo", "dr-grpo", "rloo", "gspo", "cispo", "sdpo"]
"""From live attempts."""
Learning = Literal[Online, "rft", "opd"]
"""The algorithms of `mcp-bench train rl`: its `rft` imitates attempts as they are made, its `opd` follows
another model."""
Algorithm = Literal[Imitation, Pairwise, Online]
"""How later turns of the loop learn. `sft`: the base imitates the teacher and the best own attempts. `rft`:
the base imitates the own attempts only. `dpo` and `kto`: the best model learns from pairs of its attempts.
The others: the best model learns online, by `train rl`."""
