"""The secret that seeds the `private` split, in a file.

`mcp-bench record --split private` creates it on its first use, and so does

    python -m mcp_bench.servers.saasworld.secret

Keep the file where no agent can read it, and keep a copy: the same tasks cannot be generated without it.
"""

from __future__ import annotations

import os
import secrets
import sys
from pathlib import Path

from mcp_bench.servers.errors import BenchError
from mcp_bench.servers.home import home

ENVIRONMENT = "MCP_BENCH_SAASWORLD_SECRET"
MIN_BYTES = 16


class SecretError(BenchError):
    """The secret is missing or too short to keep anything private."""


def secret_path() -> Path:
    """Return `$MCP_BENCH_SAASWORLD_SECRET`, or `saasworld.secret` in the home of mcp-bench."""
    if named := os.environ.get(ENVIRONMENT):
        return Path(named).expanduser().absolute()
    return home() / "saasworld.secret"


def read_secret() -> bytes:
    """Return the secret.

    Raises:
        SecretError: the secret is missing, unreadable or too short; the text says how to create one.
    """
    path = secret_path()
    how = "make one with: python -m mcp_bench.servers.saasworld.secret (`record --split private` does, too)"
    try:
        found = path.read_bytes().strip()
    except FileNotFoundError:
        raise SecretError(f"the private split needs a secret, and there is none at {path}; {how}") from None
    except OSError as error:
        raise SecretError(f"cannot read the secret {path}: {error.strerror}") from None
    if len(found) < MIN_BYTES:
        raise SecretError(f"the secret {path} has {len(found)} bytes, at least {MIN_BYTES} are needed; {how}")
    return found


def make_secret() -> Path:
    """Write a new secret, readable by its owner only, and return its path.

    Raises:
        SecretError: the file exists, or the folder is not writable.
    """
    path = secret_path()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise SecretError(
            f"{path} exists: it is kept, since a new one would be a new private split"
        ) from None
    except OSError as error:
        raise SecretError(f"cannot write {path}: {error.strerror}") from None
    with os.fdopen(descriptor, "w") as file:
        file.write(secrets.token_hex(32) + "\n")
    return path


def made_secret() -> str | None:
    """Create the secret if there is none; return what to say about it, or None if there was one.

    Raises:
        SecretError: the folder is not writable.
    """
    if secret_path().exists():
        return None
    path = make_secret()
    return (
        f"The private split had no secret yet: {path} is it now. Keep a copy, since the same tasks cannot be "
        "generated without it, and show it to no agent"
    )


if __name__ == "__main__":
    try:
        print(make_secret())
    except SecretError as error:
        sys.exit(f"Error: {error}")
