"""Pinned lists: the packages of a benchmark's environment, and the Pythons that have them all."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from mcp_bench.servers.errors import BenchError

SHIPPED = Path(__file__).with_name("pins")
PIN = re.compile(r"(?P<name>[A-Za-z0-9][\w.-]*)==(?P<version>[\w.+!-]+)")


@dataclass(frozen=True, slots=True)
class Pins:
    """A pinned list.

    It names packages of packages, too: they are installed without dependencies (`pip install --no-deps`), so
    nothing else comes with them.
    """

    file: Path
    python: tuple[str, ...]
    """Versions of Python for which every pin has a wheel, such as `3.11`; the best first."""
    packages: tuple[str, ...]
    """`NAME==VERSION` each."""
    licence: str
    """Of the benchmark's package."""
    megabytes: int
    """Size of the environment."""

    @property
    def digest(self) -> str:
        """A hash of the packages: an environment of other ones is outdated."""
        return sha256("\n".join(self.packages).encode()).hexdigest()[:16]


def shipped_pins(benchmark: str) -> Path | None:
    """Return the pinned list that mcp-bench has for a benchmark, or None."""
    file = SHIPPED / f"{benchmark}.toml"
    return file if file.is_file() else None


def read_pins(file: Path) -> Pins:
    """Return a pinned list from its TOML file.

    Raises:
        BenchError: the file cannot be read, or has something else in it.
    """
    try:
        found = tomllib.loads(file.read_text(encoding="utf-8"))
        pins = Pins(
            file=file,
            python=texts(found, "python"),
            packages=texts(found, "packages"),
            licence=str(found.get("licence", "")),
            megabytes=int(found.get("megabytes", 0)),
        )
    except (OSError, ValueError, TypeError) as error:
        raise BenchError(f"{file} is no pinned list: {type(error).__name__}: {error}") from error
    if wrong := [package for package in pins.packages if not PIN.fullmatch(package)]:
        raise BenchError(f"{file}: {wrong[0]!r} is no pin: write NAME==VERSION")
    return pins


def texts(found: dict[str, Any], key: str) -> tuple[str, ...]:
    """Return a list of a pinned list's file.

    Raises:
        ValueError: it is something else, or empty.
    """
    value = found.get(key)
    if not isinstance(value, list) or not value or not all(isinstance(one, str) for one in value):
        raise ValueError(f"{key!r} must be a list of texts, and not empty")
    return tuple(value)
