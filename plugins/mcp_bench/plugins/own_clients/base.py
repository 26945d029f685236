"""The base of our own clients' plugins. A client is a module, run in an environment without benchmarks."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from importlib.metadata import version

from mcp_bench.plugins.cli_agent import MCP_CONFIG, mcp_servers
from mcp_bench.plugins.contracts import (
    AgentOutput,
    Installation,
    Launch,
    LaunchRequest,
    LentLogin,
    McpServer,
    Transcript,
    WarmStart,
)
from mcp_bench.plugins.own_clients import environment as client_environment
from mcp_bench.plugins.own_clients.events import read_transcript
from mcp_bench.servers.errors import WrongUseError

LATE = ("anyio._backends._asyncio",)
"""Modules that every client imports once it runs, for 10 of its 45 ms of CPU."""


class OwnClient:
    """Finds and reads one of our clients. A subclass adds `prepare`."""

    def find(self, environ: Mapping[str, str]) -> Installation:
        return installation()

    def read(self, output: AgentOutput, server: McpServer) -> Transcript:
        return read_transcript(output.stdout)


def installation() -> Installation:
    """Return this Python: our clients are installed with mcp-bench."""
    return Installation(sys.executable, version("mcp-bench-kit"))


def launch(
    client: str,
    request: LaunchRequest,
    arguments: Sequence[str] = (),
    *,
    stdin: bytes = b"",
    env: Mapping[str, str] | None = None,
    also: Sequence[str] = (),
) -> Launch:
    """Write the MCP configuration into the private HOME; return the launch of a client.

    Args:
        also: modules that the client imports late, besides `LATE`.
    """
    config = request.home / MCP_CONFIG
    config.write_text(json.dumps(mcp_servers(request.server)), encoding="utf-8")
    return started(client, ("--mcp-config", str(config), *arguments), stdin=stdin, env=env, also=also)


def started(
    client: str,
    arguments: Sequence[str],
    *,
    stdin: bytes = b"",
    env: Mapping[str, str] | None = None,
    also: Sequence[str] = (),
    login: LentLogin | None = None,
) -> Launch:
    """Return the launch of a client with these arguments only."""
    modules = (client_environment.module(client), *LATE, *also)
    warm_start = WarmStart(client_environment.folder(), modules, tuple(arguments))
    argv = (*client_environment.command(client), *arguments)
    return Launch(argv, env or {}, stdin, login, warm_start)


def attempt_flags(request: LaunchRequest) -> list[str]:
    """Return the flags that give each attempt at a task its own random calls."""
    first = request.seed == 0 and request.repeat == 0
    return [] if first else [f"--attempt={request.seed}.{request.repeat}"]


def flags(request: LaunchRequest, known: Mapping[str, Callable[[str], object]]) -> list[str]:
    """Return the agent options in `known` as command-line flags, checked by their parsers.

    A value that parses to true becomes a flag without a value; one that parses to false is left out.

    Raises:
        WrongUseError: a value does not fit its option.
    """
    result: list[str] = []
    for key, parse in known.items():
        if key not in request.options:
            continue
        text = request.options[key]
        try:
            value = parse(text)
        except ValueError as error:
            raise WrongUseError(f"agent option {key}={text}: {error}") from error
        flag = f"--{key.replace('_', '-')}"
        if isinstance(value, bool):
            result += [flag] if value else []
        else:
            result.append(f"{flag}={text}")
    return result


def share(text: str) -> float:
    with suppress(ValueError):
        if 0 <= (value := float(text)) <= 1:
            return value
    raise ValueError("should be a number between 0 and 1")


def positive(text: str) -> int:
    with suppress(ValueError):
        if (value := int(text)) >= 1:
            return value
    raise ValueError("should be a whole number, at least 1")


def natural(text: str) -> int:
    with suppress(ValueError):
        if (value := int(text)) >= 0:
            return value
    raise ValueError("should be a whole number, at least 0")


def number(text: str) -> float:
    with suppress(ValueError):
        if math.isfinite(value := float(text)):
            return value
    raise ValueError("should be a number")


def yes_or_no(text: str) -> bool:
    """Parse a switch."""
    words = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}
    if text.lower() not in words:
        raise ValueError("should be true or false")
    return words[text.lower()]


def one_of(*choices: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text not in choices:
            raise ValueError(f"should be one of {', '.join(choices)}")
        return text

    return parse
