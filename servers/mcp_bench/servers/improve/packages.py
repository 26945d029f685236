"""Packages that candidates can import: a folder with the files of some distributions, put below a sandbox.

They come from this Python's environment, and without anything else of it: the environment also has the
references of the tasks.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Sequence
from hashlib import sha256
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path, PurePosixPath

from mcp_bench.servers.errors import BenchError, MissingDependencyError
from mcp_bench.servers.home import home
from mcp_bench.servers.sandbox import Sandbox

PLACE = "/opt/packages"
"""Where a sandbox has them."""
VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"


def absent(names: Sequence[str]) -> list[str]:
    """Return those of the distributions that are not installed."""
    found = []
    for name in names:
        try:
            distribution(name)
        except PackageNotFoundError:
            found.append(name)
    return found


def layer(names: Sequence[str]) -> Path:
    """Return a folder that has the distributions in `opt/packages`. It is made once for each version.

    Raises:
        MissingDependencyError: one of them is not installed.
        BenchError: the folder cannot be written.
    """
    try:
        found = [distribution(name) for name in names]
    except PackageNotFoundError as error:
        raise MissingDependencyError(
            f"this task needs the package {error.name}, which is not installed: pip install {error.name}"
        ) from error
    key = " ".join([VERSION, *versions(names)])
    place = home() / "improve" / sha256(key.encode()).hexdigest()[:16]
    if place.is_dir():
        return place
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        made = Path(tempfile.mkdtemp(prefix=".new-", dir=place.parent))
        made.chmod(0o755)
        for one in found:
            copy(one, made / PLACE.lstrip("/"))
        try:
            made.rename(place)
        except OSError:  # another process was faster
            shutil.rmtree(made)
    except OSError as error:
        raise BenchError(f"cannot copy packages for candidates to {place}: {error}") from error
    return place


def versions(names: Sequence[str]) -> list[str]:
    """Return the distributions with their versions."""
    return [f"{one.name}=={one.version}" for one in map(distribution, names)]


def copy(one: Distribution, target: Path) -> None:
    """Copy a distribution's files, without its scripts and compiled modules. Links share the disk space."""
    if one.files is None:
        raise MissingDependencyError(
            f"the package {one.name} has no list of its files: install it again with pip"
        )
    for file in one.files:
        if ".." in PurePosixPath(file).parts or "__pycache__" in PurePosixPath(file).parts:
            continue
        source, place = Path(str(one.locate_file(file))), target / file
        if source.is_file():
            place.parent.mkdir(parents=True, exist_ok=True)
            try:
                os.link(source, place)
            except OSError:
                shutil.copyfile(source, place)


async def check_python(sandbox: Sandbox) -> None:
    """Check that the sandbox's Python can import packages that were built for this one.

    Raises:
        BenchError: it is another version.
    """
    command = "python3 -c 'import sys; print(\"%d.%d\" % sys.version_info[:2])'"
    said = (await sandbox.run(command)).output.strip()
    if said != VERSION:
        raise BenchError(
            f"the packages of this task are for Python {VERSION}, and the sandbox's python3 is "
            f"{said or 'missing'}. Use a Python of that version for this benchmark: MCP_BENCH_PYTHON_IMPROVE"
        )
