"""What an agent needs to log in, out of the user's environment and nowhere else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mcp_bench.servers.errors import BenchError

PLACEHOLDER = "none"
"""Sent to an endpoint of the user's own that asks for no key, by agents that insist on one."""


class LoginMissingError(BenchError):
    """The agent would have no login; the text says which variables to set."""


def login(agent: str, environ: Mapping[str, str], names: Sequence[str]) -> tuple[str, str]:
    """Return the first of the variables `names` that is set, and its value.

    Raises:
        LoginMissingError: none is.
    """
    for name in names:
        if value := environ.get(name):
            return name, value
    raise LoginMissingError(
        f"{agent} has no login: set {' or '.join(names)}, or name an endpoint of your own"
    )
