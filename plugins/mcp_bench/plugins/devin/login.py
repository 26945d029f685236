"""Devin's login: a file that `devin auth login` writes, for there is no variable for it.

Written from its documentation (https://docs.devin.ai/cli/enterprise/devin-auth), not tried.
"""

from __future__ import annotations

from pathlib import Path

from mcp_bench.plugins.contracts import LaunchRequest, LentLogin
from mcp_bench.plugins.login import LoginFile, LoginMissingError

FILE = LoginFile(
    "credentials.toml",
    ".local/share/devin",
    "devin auth login",
    alone="nobody has seen yet what Devin does when two of them renew it",
)
CREDENTIALS = Path(FILE.folder, FILE.name)
"""In HOME."""


def lend_login(request: LaunchRequest) -> LentLogin:
    """Let the user's login be seen in the private HOME: in its place, and never copied or read.

    Raises:
        LoginMissingError: there is none.
    """
    if not FILE.is_there(request.environ):
        file = FILE.at(request.environ)
        raise LoginMissingError(f"devin has no login (no file {file}): run `{FILE.command}`")
    return FILE.lend(request.environ, request.home / FILE.folder)
