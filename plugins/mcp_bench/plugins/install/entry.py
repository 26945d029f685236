"""Our entry in an agent's configuration file: build it, write it, or remove it."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import stat
import sys
import sysconfig
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

from mcp_bench.plugins.install import json_file, toml_file
from mcp_bench.plugins.install.errors import UnreadableSettingsError
from mcp_bench.plugins.install.places import Entry, Scope, settings_file
from mcp_bench.recorder.atomic_file import write_atomic
from mcp_bench.servers.errors import BenchError

HOME = "MCP_BENCH_HOME"


class Change:
    """An agent's configuration file and the place of our entry in it."""

    def __init__(
        self, agent: str, scope: Scope, name: str, environ: Mapping[str, str], project: Path
    ) -> None:
        """Find the file.

        Raises:
            UnknownNameError, WrongUseError: as `settings_file` does.
        """
        self.settings, self.path = settings_file(agent, scope, environ, project)
        self.environ = environ
        self.keys = (self.settings.table, name)
        self.form: ModuleType = toml_file if self.path.suffix == ".toml" else json_file

    def text(self) -> str:
        return self.as_stored().replace("\r\n", "\n")

    def as_stored(self) -> str:
        """Return the file's text with its own line ends; empty if there is none."""
        try:
            with self.path.open(encoding="utf-8", newline="") as file:
                return file.read()
        except FileNotFoundError:
            return ""
        except (OSError, ValueError) as error:
            raise BenchError(f"cannot read {self.path}: {error}") from error

    def present(self) -> Any:
        """Return the entry that is in the file now, or None."""
        try:
            return self.form.get(self.text(), self.keys)
        except UnreadableSettingsError as error:
            raise UnreadableSettingsError(f"{self.path} is unchanged: {error}") from error

    def edited(self, entry: Entry | None) -> str:
        """Return the file's text with the entry, or without it (None), and nothing else changed.

        Raises:
            UnreadableSettingsError: the file's layout does not allow it.
        """
        before = self.text()
        try:
            after: str = (
                self.form.remove(before, self.keys)
                if entry is None
                else self.form.put(before, self.keys, entry)
            )
            if self.form.get(after, self.keys) != entry or self._others(after) != self._others(before):
                raise UnreadableSettingsError("other settings would change")
        except UnreadableSettingsError as error:
            place = ".".join(self.keys)
            todo = (
                f"delete {place} yourself"
                if entry is None
                else f"add {place} yourself: the same command with --print shows it"
            )
            raise UnreadableSettingsError(
                f"{self.path} is unchanged, because its layout allows no safe edit ({error}); {todo}"
            ) from error
        return after

    def _others(self, text: str) -> str:
        """Return all but our entry in a form that compares types, and NaN with itself."""
        return json.dumps(others(self.form.read(text), self.keys), sort_keys=True, default=repr)

    def shown(self, entry: Entry) -> str:
        """Return the text of a file that has only the entry."""
        text: str = self.form.dumped(self.keys, entry)
        return text


def wanted(change: Change, benchmark: str) -> Entry:
    """Return the entry for a benchmark, with the token of an existing entry: it identifies the client."""
    command = [program(), "connect", benchmark, "--entry"]
    present = change.present()
    current = present if isinstance(present, dict) else {}
    before = [*_list(current.get("command")), *_list(current.get("args"))]
    token = next((after for flag, after in pairwise(before) if flag == "--entry"), None)
    # some agents pass none of their environment on to a server
    env = {HOME: change.environ[HOME]} if change.environ.get(HOME) else {}
    return change.settings.entry([*command, token or secrets.token_urlsafe(12)], env)


def apply(change: Change, entry: Entry | None) -> bool:
    """Write the entry, or remove it (None); return whether that changed the file.

    Raises:
        BenchError: the file cannot be read or written; it is unchanged.
        UnreadableSettingsError: the agent itself could not read it, or an edit would change more.
    """
    if change.present() == entry:
        return False
    text, before = change.edited(entry), change.as_stored()
    windows = "\r\n" in before and before.count("\r\n") == before.count("\n")
    write(change.path, text.replace("\n", "\r\n") if windows else text)
    return True


def others(content: dict[str, Any], keys: Sequence[str]) -> dict[str, Any]:
    """Return a file's content without our entry, and without tables that have nothing else."""
    name, *inner = keys
    kept = {key: value for key, value in content.items() if key != name}
    if inner and (table := others(content.get(name, {}), inner)):
        kept[name] = table
    return kept


def write(path: Path, text: str) -> None:
    """Replace a file atomically. Follows links and keeps the file's mode."""
    target = path.resolve()
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        mode = stat.S_IMODE(target.stat().st_mode) if target.exists() else 0o600
        write_atomic(target, text, mode)
    except OSError as error:
        raise BenchError(f"cannot write {path}: {error.strerror}") from error


def program() -> str:
    """Return the path of `mcp-bench`: agents start servers with another PATH."""
    beside = Path(sysconfig.get_path("scripts")) / "mcp-bench"
    found = str(beside) if beside.exists() else shutil.which("mcp-bench")
    if found is None:
        raise BenchError(f"mcp-bench is not installed for {sys.executable}: pip install mcp-bench-kit")
    return os.path.abspath(found)  # noqa: PTH100 - resolving would leave the virtual environment


def _list(value: Any) -> list[str]:
    return [value] if isinstance(value, str) else [str(part) for part in value or ()]
