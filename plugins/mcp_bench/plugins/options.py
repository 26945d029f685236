"""Reading the `--agent-option KEY=VALUE` pairs."""

from __future__ import annotations

from collections.abc import Mapping

from mcp_bench.servers.errors import WrongUseError


def whole_number(options: Mapping[str, str], key: str) -> int | None:
    """Return an option that counts something; None where it is not given.

    Raises:
        WrongUseError: it is not a whole number from 0 to 100.
    """
    text = options.get(key)
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and int(text) <= 100):
        raise WrongUseError(f"agent option {key}={text}: should be a whole number from 0 to 100")
    return int(text)
