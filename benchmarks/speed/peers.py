"""Proxies of other projects, each in a separate environment and started as documented."""

import json
import subprocess
import sys
import venv
from collections.abc import Sequence
from pathlib import Path

FASTMCP = "fastmcp==4.1.2"  # later versions need a certifi release that some indexes lack
MCP_PROXY = "mcp-proxy==0.13.0"  # needs mcp<2
ENVS = Path("~/.cache/mcp-bench-benchmarks").expanduser()


def bin_of(requirement: str, envs: Path) -> Path:
    """Return the `bin` folder of an environment with `requirement`, which is created on first use.

    An environment counts once `ready` is in it: what an interrupted installation left is made anew.
    """
    folder = envs / requirement
    if not (folder / "ready").exists():
        print(f"installing {requirement} into {folder} ...", file=sys.stderr, flush=True)
        venv.create(folder, with_pip=True, clear=True)
        subprocess.run(
            [folder / "bin/python", "-m", "pip", "install", "-qq", requirement],
            check=True,
            timeout=1800,  # compiling some fifty packages takes long on a busy machine
            stdout=sys.stderr,
        )
        (folder / "ready").touch()
    return folder / "bin"


def fastmcp_config(command: Sequence[str], folder: Path) -> Path:
    """Write the configuration for `fastmcp run` as a proxy of a stdio server, and return its path."""
    path = folder / "mcp.json"
    path.write_text(json.dumps({"mcpServers": {"echo": {"command": command[0], "args": list(command[1:])}}}))
    return path


def fastmcp_stdio(command: Sequence[str], envs: Path, folder: Path) -> list[str]:
    program = str(bin_of(FASTMCP, envs) / "fastmcp")
    return [program, "run", str(fastmcp_config(command, folder)), "--no-banner", "--log-level", "ERROR"]


def fastmcp_http(url: str, port: int, envs: Path) -> list[str]:
    program = str(bin_of(FASTMCP, envs) / "fastmcp")
    return [
        *(program, "run", url, "--transport", "http", "--port", str(port)),
        *("--no-banner", "--log-level", "ERROR"),
    ]


def mcp_proxy_stdio(command: Sequence[str], envs: Path) -> list[str]:
    """Return the command of mcp-proxy's proxy server on stdio.

    The mcp-proxy command only connects stdio with HTTP, so this runs its server on the SDK's transport.
    """
    script = Path(__file__).with_name("mcp_proxy_stdio.py")
    return [str(bin_of(MCP_PROXY, envs) / "python"), str(script), *command]


def mcp_proxy_http(command: Sequence[str], port: int, envs: Path) -> list[str]:
    """Return the command of mcp-proxy with a stdio server behind it. It supports no HTTP servers."""
    program = str(bin_of(MCP_PROXY, envs) / "mcp-proxy")
    return [program, "--port", str(port), "--log-level", "ERROR", "--", *command]
