"""The token of this user's HTTP listeners.

Every agent on the machine reaches loopback, whatever its isolation. So each request must show the token: as
the first part of its path, which every client can be configured with, or as `Authorization: Bearer ...`.
"""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

from mcp_bench.servers.errors import BenchError
from mcp_bench.servers.home import home

VARIABLE = "MCP_BENCH_TOKEN"
FILE = "http-token"
SHORTEST = 32
"""Fewer characters are an incomplete file."""


def listener_token() -> str:
    """Return the token in the file `http-token` of the home, and create it on first use.

    It stays the same, so that clients find a listener again after a restart. No sandbox shows the home.

    Raises:
        BenchError: the file cannot be written or read.
    """
    path = home() / FILE
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if not complete(path):
            new = path.with_name(f"{FILE}.{secrets.token_hex(8)}")
            descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "w") as file:
                file.write(secrets.token_urlsafe(SHORTEST))
            with suppress(FileExistsError):  # another process was first
                os.link(new, path)
            new.unlink()
        return path.read_text().strip()
    except OSError as error:
        raise BenchError(f"cannot use {path}: {error.strerror}. Or set {VARIABLE} to a token") from error


def below(token: str, url: str) -> str:
    """Return a URL of a listener with the token as the first part of its path."""
    parts = urlsplit(url)
    return parts._replace(path=f"/{token}{parts.path}").geturl()


def complete(path: Path) -> bool:
    """Return whether the file has a token, and remove one that was cut short, or that others could read."""
    with suppress(FileNotFoundError):
        if len(path.read_text().strip()) >= SHORTEST and not path.stat().st_mode & 0o077:
            return True
        path.unlink()
    return False
