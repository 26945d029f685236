"""Names of the isolation levels, weakest first. The only list of them.

A new level needs a line here and a module in mcp_bench.bridge.isolation. Commands import this module when
they start, so it imports nothing.
"""

LEVELS = ("none", "landlock", "bwrap", "uid")
SEALING = LEVELS[1:]
"""Levels that keep an agent from reading its grade."""
IN_PROCESS = "in-process"
"""The agent is no program of its own, but a part of the referee. Only for our own clients without a shell."""
OPEN = ("none", IN_PROCESS)
"""Nothing is refused to an agent."""
LIST = f"{', '.join(LEVELS[:-1])} or {LEVELS[-1]}"
"""The levels in a sentence."""


def strength(level: str | None) -> int:
    """Return a level's position in the order; 0 for a level that this version does not know."""
    return LEVELS.index(level) if level in LEVELS else 0
