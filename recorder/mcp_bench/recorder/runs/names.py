"""Choose runs by name: an id or a unique prefix of one."""

from __future__ import annotations

from collections.abc import Collection

from mcp_bench.servers.errors import UnknownNameError, WrongUseError

RUN_PREFIX = "run_"
"""With what the id of a run begins."""
RUN_HELP = "Take only this run, named by its id or a unique prefix of it (repeatable). Default: all runs."
RUN_TAG_HELP = "Take only runs with this tag, see `mcp-bench annotate` (repeatable; all must match)."
_NAMED = 3


def run_id(name: str, known: Collection[str]) -> str:
    """Return the one of the known ids that is `name`, or begins with it.

    Raises:
        UnknownNameError: there is none; the message lists near matches.
        WrongUseError: there are several.
    """
    if name in known:
        return name
    found = sorted(run for run in known if name and run.startswith(name))
    if not found:
        raise UnknownNameError("run", name, known)
    if len(found) > 1:
        some = ", ".join([*found[:_NAMED], *(["..."] if found[_NAMED:] else [])])
        raise WrongUseError(f"{name!r} matches {len(found)} runs ({some}): give a longer prefix")
    return found[0]
