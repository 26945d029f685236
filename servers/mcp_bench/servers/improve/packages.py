"""Packages that candidates can import: a folder with the files of some distributions, put below a sandbox.

What a distribution requires comes with it, as far as it is installed: how PyTorch was built decides which
libraries it needs. They come from this Python's environment, and without anything else of it: the environment
also has the references of the tasks.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
from collections.abc import Sequence
from hashlib import sha256
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from importlib.util import cache_from_source
from pathlib import Path, PurePosixPath

from mcp_bench.servers.errors import BenchError, MissingDependencyError
from mcp_bench.servers.home import home
from mcp_bench.servers.sandbox import Sandbox

PLACE = "/opt/packages"
"""Where a sandbox has them."""
FORM = "with bytecode"
"""Of a layer: another form is another folder."""
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
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
    if missing := absent(names):
        raise MissingDependencyError(
            f"this task needs the package {missing[0]}, which is not installed: pip install {missing[0]}"
        )
    found = required(names)
    key = " ".join([VERSION, FORM, *(f"{one.name}=={one.version}" for one in found)])
    place = home() / "improve" / sha256(key.encode()).hexdigest()[:16]
    if place.is_dir():
        return place
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        made = Path(tempfile.mkdtemp(prefix=".new-", dir=place.parent))
        try:
            made.chmod(0o755)
            for one in found:
                copy(one, made / PLACE.lstrip("/"))
            made.rename(place)
        except OSError:
            if not place.is_dir():  # otherwise another process was faster
                raise
        finally:
            shutil.rmtree(made, ignore_errors=True)
    except OSError as error:
        raise BenchError(f"cannot copy packages for candidates to {place}: {error}") from error
    return place


def required(names: Sequence[str]) -> list[Distribution]:
    """Return these distributions, and the installed ones that they require, by name."""
    found = dict[str, Distribution]()
    waiting = list(names)
    while waiting:
        try:
            one = distribution(waiting.pop())
        except PackageNotFoundError:  # for another system, or not wanted: pip checks that, not a task
            continue
        if one.name not in found:
            found[one.name] = one
            needed = [line for line in one.requires or () if "extra ==" not in line]
            waiting += [match[0] for line in needed if (match := NAME.match(line))]
    return [found[name] for name in sorted(found)]


def versions(names: Sequence[str]) -> list[str]:
    """Return the distributions with their versions."""
    return [f"{one.name}=={one.version}" for one in map(distribution, names)]


def copy(one: Distribution, target: Path) -> None:
    """Copy a distribution's files, without its scripts. Links share the disk space.

    So do times: Python uses bytecode of files that have not changed. Compiling PyTorch in each process takes
    longer than a small training run.
    """
    if one.files is None:
        raise MissingDependencyError(
            f"the package {one.name} has no list of its files: install it again with pip"
        )
    for file in one.files:
        if ".." in PurePosixPath(file).parts:
            continue
        source, place = Path(str(one.locate_file(file))), target / file
        _copy_file(source, place)
        if source.suffix == ".py":  # pip lists the bytecode that it made; Python makes it, too
            _copy_file(Path(cache_from_source(source)), Path(cache_from_source(place)))


def _copy_file(source: Path, place: Path) -> None:
    if not source.is_file() or place.exists():
        return
    place.parent.mkdir(parents=True, exist_ok=True)
    source = source.resolve()  # some installers make links, which would point to nothing in a sandbox
    try:
        os.link(source, place)
    except OSError:
        shutil.copy2(source, place)


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
