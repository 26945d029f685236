"""Parts that are installed separately, and how: for messages about what is missing."""

from __future__ import annotations

TRAINER = "mcp-bench-trainer"
"""A distribution of its own, so that recording never installs PyTorch."""
TRAINER_COMMANDS = ("train", "export-model", "serve-model", "loop", "ablate", "improve")
"""The commands that it adds. A test compares them with its entry points."""
INSTALL_TRAINER = "pip install ./trainer (in a checkout of mcp-bench; it installs PyTorch)"


def install_extra(name: str) -> str:
    """Return the command that installs an extra of mcp-bench."""
    return f"pip install 'mcp-bench-kit[{name}]'"
