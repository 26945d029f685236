"""The secret that seeds a benchmark's `private` split, in a file.

`mcp-bench record --split private` creates it on its first use, and so does

    python -m mcp_bench.servers.secret BENCHMARK

Keep the file where no agent can read it, and keep a copy: the same tasks cannot be generated without it.
"""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from mcp_bench.servers.errors import BenchError, NoSecretError, SecretError, WrongUseError
from mcp_bench.servers.home import expanded, home
from mcp_bench.servers.registry import load

PRIVATE = "private"
"""The split that follows from a secret."""
MIN_BYTES = 16
SHARED = {"saasworld-api": "saasworld"}
"""Benchmarks whose private split is that of another one."""


def variable(benchmark: str) -> str:
    """Return the environment variable that can name the file, such as MCP_BENCH_SAASWORLD_SECRET."""
    return f"MCP_BENCH_{benchmark.upper().replace('-', '_')}_SECRET"


def secret_path(benchmark: str) -> Path:
    """Return the file that `variable` names, or `BENCHMARK.secret` in the home of mcp-bench."""
    if named := os.environ.get(variable(benchmark)):
        return expanded(named).absolute()
    return home() / f"{benchmark}.secret"


def read_secret(benchmark: str) -> bytes:
    """Return the secret of a benchmark.

    Raises:
        NoSecretError: there is none; the text says how to create one.
        SecretError: it is unreadable or too short.
    """
    path = secret_path(benchmark)
    how = (
        f"make one with: python -m mcp_bench.servers.secret {benchmark} (`record --split private` does, too)"
    )
    try:
        found = path.read_bytes().strip()
    except FileNotFoundError:
        raise NoSecretError(f"the private split needs a secret, and there is none at {path}; {how}") from None
    except OSError as error:
        raise SecretError(f"cannot read the secret {path}: {error.strerror}") from None
    if len(found) < MIN_BYTES:
        raise SecretError(
            f"the secret {path} has {len(found)} bytes, at least {MIN_BYTES} are needed. Restore your copy, "
            f"or remove the file and {how}"
        )
    return found


def private_seed(benchmark: str, task_id: str) -> int:
    """Return the seed of a private task, 0 to 2**63 - 1: it follows from the secret and the id.

    Raises:
        SecretError: see `read_secret`.
    """
    digest = sha256(f"{benchmark} {task_id} ".encode() + read_secret(benchmark)).digest()
    return int.from_bytes(digest[:8]) >> 1


def make_secret(benchmark: str) -> Path:
    """Write a new secret, readable by its owner only, and return its path.

    Raises:
        SecretError: the file exists, or the folder is not writable.
    """
    path = secret_path(benchmark)
    whole = path.with_name(f".{path.name}.{os.getpid()}")  # what has the secret's name is never half of it
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with os.fdopen(os.open(whole, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            file.write(secrets.token_hex(32) + "\n")
        os.link(whole, path)
    except OSError as error:
        if path.exists():
            text = f"{path} exists: it is kept, since a new one would be a new private split"
        else:
            text = f"cannot write {path}: {error.strerror}: {error.filename}"
        raise SecretError(text) from None
    finally:
        with suppress(OSError):
            whole.unlink()
    return path


def made_secret(benchmark: str) -> str | None:
    """Create the secret if there is none; return what to say about it, or None if there was one.

    Raises:
        SecretError: the folder is not writable.
    """
    path = secret_path(benchmark)
    if path.exists():
        return None
    try:
        make_secret(benchmark)
    except SecretError:
        if path.exists():  # another process was first
            return None
        raise
    return (
        f"The private split had no secret, so one was made: {path}. Keep a copy, since the same tasks cannot "
        "be generated without it, and show it to no agent"
    )


def main(arguments: Sequence[str]) -> None:
    """Create the secret of the benchmark that the command line names, and print its path.

    Raises:
        BenchError: there is no such benchmark, it has no private split, or the secret cannot be written.
    """
    if len(arguments) != 1 or arguments[0].startswith("-"):
        sys.exit("Usage: python -m mcp_bench.servers.secret BENCHMARK")
    from mcp_bench.servers.contracts import BenchmarkDefaults, with_defaults

    (name,) = arguments
    if not with_defaults(load("benchmark", name), BenchmarkDefaults).private_splits:
        raise WrongUseError(f"benchmark {name!r} has no private split, so it needs no secret")
    print(make_secret(SHARED.get(name, name)))


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except BenchError as error:
        sys.exit(f"Error: {error}")
