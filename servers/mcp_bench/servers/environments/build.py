"""Build a benchmark's environment with venv and pip.

What was downloaded or installed before a failure is used again: pip keeps downloads, and skips what is there.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from mcp_bench.servers.environments.pins import Pins
from mcp_bench.servers.environments.places import LABEL, folder, label, link_ours, python_in, state
from mcp_bench.servers.errors import BenchError, MissingDependencyError, WrongUseError
from mcp_bench.servers.home import VARIABLE
from mcp_bench.servers.terminal.sanitize import sanitize_line

VERSION = "import sys; print('%d.%d' % sys.version_info[:2])"
SECONDS = 60.0
"""For a command that only prints something."""
KEPT_LINES = 200
LOG = "install.log"
TAKEN = re.compile(
    r"(?:Collecting|Processing|Requirement already satisfied:) "
    r"(?:\S*/)?(?P<name>[A-Za-z][\w.]*(?:-[A-Za-z]\w*)*)"
)
OFFLINE = re.compile(
    r"NewConnectionError|NameResolutionError|ConnectTimeoutError|ProxyError|Network is unreachable"
)
NO_PIN = re.compile(r"No matching distribution found for (?P<pin>\S+)")

Say = Callable[[str], object]


def build(benchmark: str, pins: Pins, python: str | None, say: Say) -> bool:
    """Build the environment of a benchmark; return whether there was anything to do.

    Args:
        python: The interpreter to build it with, a path or a name on PATH; by default this one if its version
            is in the list, else the first that is found.
        say: Receives a line about each step.

    Raises:
        WrongUseError: `python` has a version that is not in the list.
        MissingDependencyError: there is no suitable Python.
        BenchError: its folder cannot be made, or a package cannot be installed. What is there stays, for the
            next try.
    """
    interpreter, version = chosen(pins, python)
    place = folder(benchmark)
    try:
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        with locked(place):
            if state(benchmark, pins) == "ready" and (
                python is None or label(place).get("python") == version
            ):
                link_ours(place)
                return False
            (place / LABEL).unlink(missing_ok=True)
            inside = python_in(place)
            if not works(inside, version):
                say(f"making an environment with Python {version} in {place}")
                make(interpreter, place)
            size = f", about {pins.megabytes} MB" if pins.megabytes else ""
            say(f"installing {len(pins.packages)} packages{size}")
            install(inside, pins, place / LOG, say)
            link_ours(place)
            done = {"pins": pins.digest, "python": version, "packages": list(pins.packages)}
            write(place / LABEL, json.dumps(done, indent=2))
    except OSError as error:
        raise BenchError(
            f"{place} cannot be made: {error.strerror or error}. Make room for it, or name another home in "
            f"${VARIABLE}"
        ) from error
    return True


def remove(benchmark: str) -> bool:
    """Remove the environment of a benchmark; return whether there was one.

    Raises:
        BenchError: it cannot be removed.
    """
    place = folder(benchmark)
    if not place.exists():
        return False
    try:
        with locked(place):
            (place / LABEL).unlink(missing_ok=True)  # nobody uses half of it
            shutil.rmtree(place)
    except OSError as error:
        raise BenchError(f"{place} cannot be removed: {error.strerror or error}") from error
    return True


def chosen(pins: Pins, python: str | None) -> tuple[str, str]:
    """Return the interpreter to build with, and its version.

    Raises:
        WrongUseError, MissingDependencyError: as `build`.
    """
    wanted = " or ".join(pins.python)
    if python is not None:
        version = asked(python, VERSION)
        if version is None:
            raise WrongUseError(f"{python!r} is no Python that starts")
        if version not in pins.python:
            raise WrongUseError(f"{python!r} is Python {version}; the pinned packages need {wanted}")
        return python, version
    own = "{}.{}".format(*sys.version_info[:2])
    if own in pins.python:
        return sys.executable, own
    for version in pins.python:
        found = shutil.which(f"python{version}")
        if found and asked(found, VERSION) == version:
            return found, version
    raise MissingDependencyError(
        f"the pinned packages need Python {wanted}, and this is {own}. Install one "
        f"(for example: uv python install {pins.python[0]}) and name it with --python"
    )


def asked(python: str | Path, question: str) -> str | None:
    """Return what an interpreter prints for one line of code, or None if it does not start."""
    command = [str(python), "-I", "-c", question]
    try:
        return subprocess.run(
            command, capture_output=True, text=True, timeout=SECONDS, check=True
        ).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return None


def works(inside: Path, version: str) -> bool:
    """Return whether an environment was made before, with this version of Python and with pip."""
    return asked(inside, f"import pip; {VERSION}") == version


def make(interpreter: str, place: Path) -> None:
    """Make an empty environment.

    Raises:
        BenchError: the interpreter cannot make one.
    """
    command = [interpreter, "-I", "-m", "venv", "--clear", str(place)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        last = (done.stderr or done.stdout).strip().splitlines() or [f"exit code {done.returncode}"]
        advice = (
            " Debian and Ubuntu have it in a package of its own: apt install python3-venv."
            if "ensurepip" in done.stdout + done.stderr
            else ""
        )
        raise BenchError(f"{interpreter} cannot make an environment: {sanitize_line(last[-1])}.{advice}")


def install(inside: Path, pins: Pins, log: Path, say: Say) -> None:
    """Install the pinned packages and nothing else. pip's whole output goes to `log`.

    Raises:
        BenchError: pip failed; the text says why and what to do.
    """
    command = [str(inside), "-I", "-m", "pip", "install", "--no-deps", "--no-input", "--retries", "2"]
    command += ["--disable-pip-version-check", "--progress-bar", "off", *pins.packages]
    last = deque[str](maxlen=KEPT_LINES)
    number = 0
    with (
        log.open("w", encoding="utf-8") as written,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as pip,
    ):
        assert pip.stdout is not None  # noqa: S101 - we asked for a pipe
        for line in pip.stdout:
            written.write(line)
            last.append(line)
            if taken := TAKEN.match(line):
                number += 1
                say(f"  {number}/{len(pins.packages)} {taken['name']}")
            elif line.startswith("Installing collected packages"):
                say("  unpacking")
    if pip.returncode:
        raise BenchError(f"{why(last)} The whole output is in {log}; the same command goes on from here")


def why(lines: deque[str]) -> str:
    """Return why pip failed, from its last lines."""
    text = "".join(lines)
    if OFFLINE.search(text):
        return "The package index cannot be reached. Are you offline? PIP_INDEX_URL names a mirror."
    if missing := NO_PIN.search(text):
        return f"The package index has no {sanitize_line(missing['pin'])} for this Python and machine."
    if "No space left" in text:
        return "The disk is full."
    errors = [line for line in lines if "error" in line.lower()] or list(lines) or ["no output"]
    return f"pip failed: {sanitize_line(errors[-1].strip())}."


@contextmanager
def locked(place: Path) -> Iterator[None]:
    """Keep a second process out of an environment.

    Raises:
        BenchError: one is there already.
    """
    # beside the folder: making an environment clears it
    descriptor = os.open(place.with_name(f".{place.name}.lock"), os.O_CREAT | os.O_RDWR, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BenchError(f"another process is at work in {place}: wait for it") from None
        yield
    finally:
        os.close(descriptor)


def write(file: Path, text: str) -> None:
    """Write a file atomically."""
    beside = file.with_name(f".{file.name}.new")
    beside.write_text(text, encoding="utf-8")
    beside.replace(file)
