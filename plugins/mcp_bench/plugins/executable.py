"""Finding an agent's program on this machine."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from mcp_bench.plugins.contracts import Installation
from mcp_bench.servers.errors import MissingDependencyError

VERSION_SECONDS = 60.0


def find_executable(name: str, environ: Mapping[str, str], install: str) -> Installation:
    """Look for `name` on the PATH of `environ` and ask it for its version.

    `install` is the command that installs it.

    Raises:
        MissingDependencyError: it is not there, or does not start.
    """
    path = environ.get("PATH", "")
    found = shutil.which(name, path=path)
    if found is None:
        raise MissingDependencyError(f"{name!r} is not on PATH; install it with: {install}")
    return _ask(str(Path(found).absolute()), path, install)


@cache
def _ask(executable: str, path: str, install: str) -> Installation:
    with tempfile.TemporaryDirectory(prefix="mcp-bench-") as home:
        try:
            answer = subprocess.run(
                [executable, "--version"],
                env={"PATH": path, "HOME": home, "LANG": "C.UTF-8"},
                cwd=home,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=VERSION_SECONDS,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise MissingDependencyError(
                f"{executable} does not start ({error}); install it again with: {install}"
            ) from error
    version = re.search(r"\d+\.\d+[\w.+-]*", answer.stdout.decode(errors="replace"))
    if answer.returncode != 0 or version is None:
        words = (answer.stderr or answer.stdout).decode(errors="replace").strip()[-500:]
        raise MissingDependencyError(
            f"{executable} --version failed (exit code {answer.returncode}): {words or 'no output'}; "
            f"install it again with: {install}"
        )
    return Installation(executable, version.group())
