"""Read the standard MCP configuration file of Claude Code, Cursor and others."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mcp_bench.clients.events import ClientError


@dataclass(frozen=True)
class StdioEntry:
    """A server that the client starts."""

    name: str
    command: str
    args: tuple[str, ...] = ()
    env: dict[str, str] = field(default_factory=dict)
    cwd: str | None = None


@dataclass(frozen=True)
class HttpEntry:
    """A running server on streamable HTTP."""

    name: str
    url: str
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class SocketEntry:
    """A server behind a Unix socket, which speaks as on stdio once it got a line with the token."""

    name: str
    path: str
    token: str


def read_config(path: Path, name: str | None = None) -> StdioEntry | HttpEntry:
    """Return the entry `name`, by default the only one.

    Raises:
        ClientError: the file cannot be read, or the entry is missing or invalid.
    """
    try:
        document = json.loads(path.read_bytes())
    except OSError as error:
        raise ClientError("usage", f"cannot read the MCP configuration {path}: {error.strerror}") from error
    except ValueError as error:
        raise ClientError("usage", f"{path} is not JSON: {error}") from error
    servers = document.get("mcpServers") if isinstance(document, dict) else None
    if not isinstance(servers, dict) or not servers:
        raise ClientError("usage", f"{path} names no server: it should have an object 'mcpServers'")
    if name is None and len(servers) > 1:
        raise ClientError(
            "usage", f"{path} names several servers ({', '.join(servers)}): choose with --server"
        )
    chosen = next(iter(servers)) if name is None else name
    if chosen not in servers:
        raise ClientError("usage", f"{path} has no server {chosen!r} (it has: {', '.join(servers)})")
    try:
        return _entry(chosen, servers[chosen])
    except ValueError as error:
        raise ClientError("usage", f"{path}: server {chosen!r}: {error}") from error


def _entry(name: str, entry: Any) -> StdioEntry | HttpEntry:
    if not isinstance(entry, dict):
        raise ValueError("should be an object")
    kind = entry.get("type", "stdio" if "command" in entry else "http")
    if kind == "stdio":
        args = entry.get("args", [])
        if not isinstance(args, list) or not all(isinstance(arg, str) for arg in args):
            raise ValueError("'args' should be a list of strings")
        cwd = _text(entry, "cwd") if entry.get("cwd") is not None else None
        return StdioEntry(name, _text(entry, "command"), tuple(args), _texts(entry, "env"), cwd)
    if kind in ("http", "streamable-http"):
        url = _text(entry, "url")
        if not url.startswith(("http://", "https://")):
            raise ValueError(f"'url' should begin with http:// or https://, not {url!r}")
        return HttpEntry(name, url, _texts(entry, "headers"))
    raise ValueError(f"type {kind!r} is not supported (stdio and http are)")


def _text(entry: dict[str, Any], key: str) -> str:
    value = entry.get(key)
    if not isinstance(value, str) or not value:
        raise ValueError(f"{key!r} should be a string that is not empty")
    return value


def _texts(entry: dict[str, Any], key: str) -> dict[str, str]:
    value = entry.get(key) or {}
    if not isinstance(value, dict) or not all(isinstance(item, str) for item in value.values()):
        raise ValueError(f"{key!r} should be an object of strings")
    return value
