"""Devin's login: a file that `devin auth login` writes, for there is no variable for it.

Written from its documentation (https://docs.devin.ai/cli/enterprise/devin-auth), not tried.
"""

from __future__ import annotations

from pathlib import Path

from mcp_bench.plugins.contracts import LaunchRequest
from mcp_bench.plugins.login import LoginMissingError

CREDENTIALS = Path(".local/share/devin/credentials.toml")
"""In HOME."""


def lend_login(request: LaunchRequest) -> None:
    """Let the user's login be seen in the private HOME: in its place, and never copied or read.

    Raises:
        LoginMissingError: there is none.
    """
    own = Path(request.environ.get("HOME", "/nowhere")) / CREDENTIALS
    if not own.is_file():
        raise LoginMissingError(f"devin has no login (no file {own}): run `devin auth login`")
    lent = request.home / CREDENTIALS
    lent.parent.mkdir(parents=True)
    lent.symlink_to(own)
