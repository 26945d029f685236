"""A Python environment for our own clients: the clients, their dependencies, and no benchmark.

It is a folder of links that exists as long as this process; the next one removes what a killed one left.
Inside a sandbox an agent cannot read the rest of the real environment, which has the benchmarks and their
answers.
"""

from __future__ import annotations

import atexit
import os
import re
import shutil
import sys
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path

from mcp_bench.servers.left_folders import new_folder

IMPORTED = ("agent-client-protocol", "anthropic", "anyio", "gepa", "httpx2", "mcp", "openai", "openevolve")
"""The distributions that the clients import; what is not installed is left out."""

PYTHON = os.path.realpath(sys.executable)
"""This Python, outside its virtual environment."""

REQUIREMENT = re.compile(r"(?P<name>[\w.-]+)\s*(\[(?P<extras>[^]]*)\])?")
EXTRA = re.compile(r"""extra\s*==\s*["'](?P<name>[\w.-]+)["']""")
"""Dependency specifiers (https://packaging.python.org/specifications/dependency-specifiers). Other markers
are ignored: a dependency that this Python does not need is not installed."""

TOP = re.compile("^[^/,\n]+", re.MULTILINE)
"""The first part of each path in a RECORD."""

MAIN = """\
import runpy, sys
runpy.run_module("mcp_bench.clients." + sys.argv.pop(1), run_name="__main__", alter_sys=True)
"""


@cache
def folder() -> Path:
    """Return the environment, creating it on the first call. Other users can read it, too."""
    made, _ = new_folder("mcp-bench-own-clients-")  # this process holds it to its end
    atexit.register(remove)
    made.chmod(0o755)
    (made / "__main__.py").write_text(MAIN)
    for name, path in packages().items():
        link = made / name
        link.parent.mkdir(exist_ok=True)
        link.symlink_to(path)
    return made


def remove() -> None:
    """Remove the environment, if this process made one."""
    if folder.cache_info().currsize:
        shutil.rmtree(folder(), ignore_errors=True)


def command(client: str) -> tuple[str, ...]:
    """Return the command of a client, without its arguments."""
    return (PYTHON, "-I", "-S", str(folder()), client)


def module(client: str) -> str:
    """Return the module of a client; it has a `main()`."""
    package = find_spec(f"mcp_bench.clients.{client}")
    assert package is not None  # noqa: S101 - our plugins name the clients
    return f"{package.name}.__main__" if package.submodule_search_locations else package.name


@cache
def packages() -> dict[str, Path]:
    """Return the targets of the links by name."""
    spec = find_spec("mcp_bench.clients")
    assert spec is not None and spec.origin is not None  # noqa: S101 - part of this distribution
    found = {"mcp_bench/clients": Path(spec.origin).parent}
    met: set[str] = set()
    waiting = list(IMPORTED)
    while waiting:
        match = REQUIREMENT.match(waiting.pop())
        if match is None or match.group() in met:
            continue
        met.add(match.group())
        extras = (match["extras"] or "").replace(" ", "").split(",")
        try:
            package = distribution(match["name"])
        except PackageNotFoundError:  # needed only by other Pythons or systems
            continue
        site = Path(str(package.locate_file("")))
        tops = set(TOP.findall(package.read_text("RECORD") or ""))
        found |= {top: site / top for top in tops - {"..", "__pycache__"}}
        for line in package.requires or ():
            wanted = EXTRA.search(line)
            if wanted is None or wanted["name"] in extras:
                waiting.append(line)
    return {name: path for name, path in found.items() if path.exists()}
