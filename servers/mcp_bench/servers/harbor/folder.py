"""Task folders: Harbor's format, and that of Terminal-Bench 1.

Sources: https://harborframework.com/docs/task-format and https://www.tbench.ai/docs (task.yaml).
"""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal

import yaml

from mcp_bench.servers.errors import WrongUseError
from mcp_bench.servers.harbor.dockerfile import Image, UnsupportedError, parsed
from mcp_bench.servers.yaml_file import load_yaml

Format = Literal["harbor", "terminal-bench"]
HARBOR, TERMINAL_BENCH = "task.toml", "task.yaml"
MOST_FOLDERS_DEEP = 3
SIZE = re.compile(r"(\d+(?:\.\d+)?) ?([KMG])(?:i?B)?", re.IGNORECASE)
UNITS = {"K": 1 / 1024, "M": 1.0, "G": 1024.0}
"""In MiB."""
CANARY = "canary"
"""Begins the line that asks not to train on a task; see the canary strings of BIG-bench."""
CLIENT_KEYS = {
    "build",
    "image",
    "container_name",
    "command",
    "environment",
    "volumes",
    "cpus",
    "mem_limit",
    "deploy",
    "tty",
    "stdin_open",
}
"""What a compose file may say of its only service, without a meaning for a sandbox."""
OWN_FILES = {
    HARBOR,
    TERMINAL_BENCH,
    "run-tests.sh",
    "solution.sh",
    "solution.yaml",
    "tests",
    "solution",
    "docker-compose.yaml",
    "Dockerfile",
    "instruction.md",
}
"""Files of a task that a Dockerfile must not copy, even if it copies everything."""


@dataclass(frozen=True)
class TaskFolder:
    """One task. Files are read when they are needed."""

    path: Path
    id: str
    format: Format
    settings: Mapping[str, Any] = field(repr=False)

    @property
    def file(self) -> Path:
        """Where its settings are."""
        return self.path / (HARBOR if self.format == "harbor" else TERMINAL_BENCH)

    @property
    def context(self) -> Path:
        return self.path / "environment" if self.format == "harbor" else self.path

    @cached_property
    def prompt(self) -> str:
        """The instruction; empty if the task has none."""
        if self.format == "harbor":
            file = self.path / "instruction.md"
            return _text(file, self.path).strip() if file.is_file() else ""
        described = self.settings.get("descriptions") or [{}]
        return str(self.settings.get("instruction") or described[0].get("description", "")).strip()

    def image(self, *, built: bool = False) -> Image:
        """Return what the task's Dockerfile says.

        Args:
            built: its image is there, so that nothing has to be made.

        Raises:
            UnsupportedError: the task needs a container engine.
        """
        self._check_compose()
        file = self.context / "Dockerfile"
        named = self.section("environment").get("docker_image")
        if not file.exists():
            if not named:
                raise UnsupportedError("it has neither a Dockerfile nor docker_image")
            return Image(str(named))
        return parsed(_text(file, self.path), built=built)

    def section(self, name: str) -> Mapping[str, Any]:
        found = self.settings.get(name)
        return found if isinstance(found, dict) else {}

    def number(self, section: str, key: str, default: float) -> float:
        """Return a number of a section of the settings, or of their top (no name).

        Where there is none, or 0, it is `default`.

        Raises:
            WrongUseError: something else is there.
        """
        found = (self.section(section) if section else self.settings).get(key)
        try:
            number = float(found) if found else default
        except (TypeError, ValueError):
            number = math.nan
        if 0 < number < math.inf:
            return number
        raise WrongUseError(f"{self.file}: {key} is {found!r}, which is no number above 0")

    def mebibytes(self, what: Literal["memory", "storage"], default: float) -> float:
        """Return a size of the task's machine: `memory_mb = 4096`, or `memory = "4G"` as in Terminal-Bench 2.

        Raises:
            WrongUseError: something else is there.
        """
        found = self.section("environment").get(what)
        if found is None or self.section("environment").get(f"{what}_mb"):
            return self.number("environment", f"{what}_mb", default)
        if (size := SIZE.fullmatch(str(found).strip())) is None:
            raise WrongUseError(f"{self.file}: {what} is {found!r}, which is no size such as 2G")
        return float(size[1]) * UNITS[size[2].upper()]

    def seconds(self, what: Literal["agent", "test"], default: float) -> float:
        if self.format == "harbor":
            return self.number("agent" if what == "agent" else "verifier", "timeout_sec", default)
        return self.number("", f"max_{what}_timeout_sec", default)

    @property
    def test_env(self) -> dict[str, str]:
        return {
            str(key): str(value) for key, value in dict(self.section("verifier").get("env") or {}).items()
        }

    @property
    def script(self) -> str:
        return "test.sh" if self.format == "harbor" else "run-tests.sh"

    @cached_property
    def tests(self) -> dict[str, bytes]:
        """The files that are mounted at /tests when the agent has ended."""
        found = files_below(self.path / "tests", self.path)
        if self.format == "terminal-bench" and (script := self.path / self.script).is_file():
            found[self.script] = inside(script, self.path).read_bytes()
        return found

    @cached_property
    def solution(self) -> dict[str, bytes]:
        """The shipped solution: its files by name. Empty if there is none."""
        if self.format == "harbor":
            return files_below(self.path / "solution", self.path)
        files = {name: self.path / name for name in ("solution.sh", "solution.yaml")}
        return {name: inside(file, self.path).read_bytes() for name, file in files.items() if file.is_file()}

    def lacks(self) -> str:
        """Return what is missing in the task's files, or an empty string."""
        if self.settings.get("steps"):
            return "single instruction: it has several steps"
        if not self.prompt:
            return "instruction"
        if self.script not in self.tests:
            return self.script
        return "" if len(self.tests) > 1 or self.format == "harbor" else "files in tests/"

    def trainable(self) -> bool:
        """Return whether no file of the task asks to be kept out of training data."""
        texts = [self.path / name for name in (HARBOR, TERMINAL_BENCH, "instruction.md")]
        texts += [self.context / "Dockerfile"]
        return not any(CANARY in _text(file, self.path).lower() for file in texts if file.is_file())

    def digest(self) -> str:
        """Return a hash of all files that decide about a grade."""
        found = sha256()
        for file in sorted(self.path.rglob("*")):
            if file.is_file():
                found.update(f"{file.relative_to(self.path)}\0{file.stat().st_size}\0".encode())
                found.update(file.read_bytes())
        return found.hexdigest()

    def _check_compose(self) -> None:
        for name in ("docker-compose.yaml", "docker-compose.yml", "compose.yaml"):
            if not (file := self.context / name).exists():
                continue
            try:
                services = dict((load_yaml(_text(file, self.path)) or {}).get("services") or {})
            except (yaml.YAMLError, AttributeError, TypeError, ValueError, RecursionError):
                raise UnsupportedError(f"{name} cannot be read") from None
            if len(services) > 1:
                raise UnsupportedError(f"{name} has {len(services)} services")
            for service in services.values():
                if extra := sorted(set(service or {}) - CLIENT_KEYS):
                    raise UnsupportedError(f"{name} asks for {', '.join(extra)}")


def words_of(table: Any) -> dict[str, str]:
    """Return a table of environment variables."""
    return {str(key): str(value) for key, value in table.items()} if isinstance(table, dict) else {}


def task_folders(path: Path) -> Iterator[Path]:
    """Yield the task folders at or below a folder, in order: numbers by value, then names."""
    yield from _below(path, MOST_FOLDERS_DEEP)


def _below(path: Path, levels: int) -> Iterator[Path]:
    if any((path / name).is_file() for name in (HARBOR, TERMINAL_BENCH)):
        yield path
        return
    if levels:
        below = [one for one in path.iterdir() if one.is_dir() and not one.name.startswith(".")]
        for one in sorted(below, key=lambda one: (not one.name.isdigit(), one.name.zfill(9), one.name)):
            yield from _below(one, levels - 1)


def read_folder(path: Path, task_id: str) -> TaskFolder:
    """Return a task.

    Raises:
        WrongUseError: its settings cannot be read.
    """
    file = path / HARBOR
    kind: Format = "harbor" if file.is_file() else "terminal-bench"
    file = file if kind == "harbor" else path / TERMINAL_BENCH
    try:
        text = _text(file, path)
        settings = tomllib.loads(text) if kind == "harbor" else load_yaml(text)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise WrongUseError(f"{file} cannot be read: {error}") from error
    if not isinstance(settings, dict):
        raise WrongUseError(f"{file} is no table of settings")
    return TaskFolder(path, task_id, kind, settings)


def files_below(folder: Path, root: Path) -> dict[str, bytes]:
    """Return the files of a folder by relative path. It is in the folder `root` of a task.

    Raises:
        WrongUseError: as for `inside`.
    """
    if not folder.is_dir():
        return {}
    found = sorted(file for file in folder.rglob("*") if file.is_file() and "__pycache__" not in file.parts)
    return {str(file.relative_to(folder)): inside(file, root).read_bytes() for file in found}


def inside(file: Path, root: Path) -> Path:
    """Return a file of the task in the folder `root`.

    Raises:
        WrongUseError: it is a link to another place. A task must not choose what else of this machine is
            read: agents, their models and sandboxes see it.
    """
    if not file.resolve().is_relative_to(root.resolve()):
        raise WrongUseError(f"{file} leads out of the task's folder: a task holds its files itself")
    return file


def _text(file: Path, root: Path) -> str:
    try:
        return inside(file, root).read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise WrongUseError(f"{file} cannot be read: {error.strerror}") from error
