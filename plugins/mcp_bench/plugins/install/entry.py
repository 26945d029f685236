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
from mcp_bench.servers.errors import BenchError, WrongUseError
from mcp_bench.servers.home import home_in

HOME = "MCP_BENCH_HOME"
PROGRAMS = ("mcp-bench", "mcp-bench-kit")
TRIES = 5
VARIABLES = ("env", "environment")
"""Where an entry has its variables: opencode's has the other name."""


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
        """Return the file's text with its own line ends; empty if there is none."""
        try:
            with self.path.open(encoding="utf-8", newline="") as file:
                return file.read()
        except FileNotFoundError:
            return ""
        except (OSError, ValueError) as error:
            raise BenchError(f"cannot read {self.path}: {error}") from error

    def present(self, text: str) -> Entry | None:
        """Return our entry in the file's text, or None.

        Raises:
            UnreadableSettingsError: the text cannot be read.
            WrongUseError: another server has the name.
        """
        try:
            entry = self.form.get(text, self.keys)
        except UnreadableSettingsError as error:
            raise UnreadableSettingsError(f"{self.path} is unchanged: {error}") from error
        if entry is None:
            return None
        if not is_ours(entry):
            place = ".".join(self.keys)
            raise WrongUseError(
                f"{self.path} is unchanged: {place} is another server; choose another name with --name"
            )
        ours: Entry = entry
        return ours

    def edited(self, text: str, entry: Entry | None) -> str:
        """Return the file's text with the entry, or without it (None), and nothing else changed.

        Raises:
            UnreadableSettingsError: the file's layout does not allow it.
        """
        try:
            after: str = (
                self.form.remove(text, self.keys) if entry is None else self.form.put(text, self.keys, entry)
            )
            if self.form.get(after, self.keys) != entry or self._others(after) != self._others(text):
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


def is_ours(entry: Any) -> bool:
    """Return whether an entry starts our server. A person may have written it in another way than we do."""
    words = words_of(entry)
    return {"connect", "--entry"} <= set(words) or any(
        after == "connect" and (Path(word).name in PROGRAMS or word.startswith("mcp_bench."))
        for word, after in pairwise(words)
    )


def words_of(entry: Any) -> list[str]:
    """Return the command line of an entry of any form; empty if it has none. `--entry=TOKEN` is two words."""
    parts = [entry.get("command"), entry.get("args")] if isinstance(entry, dict) else []
    lists = [[part] if isinstance(part, str) else part for part in parts if isinstance(part, str | list)]
    words = [str(word) for words in lists for word in words]
    return [
        part for word in words for part in (word.split("=", 1) if word.startswith("--entry=") else [word])
    ]


def wanted(change: Change, present: Entry | None, benchmark: str) -> Entry:
    """Return the entry for a benchmark.

    Of the present one stay the token, which identifies the client, the options of `connect`, and what else
    the user has set, such as variables and time limits.
    """
    before = words_of(present)
    token = next((after for flag, after in pairwise(before) if flag == "--entry"), None)
    # some agents pass none of their environment on to a server, and start it in another folder
    env = {HOME: str(home_in(change.environ))} if change.environ.get(HOME) else {}
    options = ["--entry", token or secrets.token_urlsafe(12), *kept_options(before, benchmark)]
    entry = change.settings.entry([program(), "connect", benchmark, *options], env)
    for key, value in (present or {}).items():
        if key in VARIABLES and isinstance(value, dict):
            entry[key] = {**value, **entry.get(key, {})}
        elif key not in ("type", "command", "args", *VARIABLES):
            entry[key] = value
    return entry


def kept_options(words: Sequence[str], benchmark: str) -> list[str]:
    """Return the options of `connect` in a command line, without the token; of another benchmark no tasks."""
    after = list(words[words.index("connect") + 1 :]) if "connect" in words else []
    same = True
    options: list[list[str]] = []
    while after:
        word = after.pop(0)
        if not word.startswith("-"):  # the old benchmark; a person may have written it after options
            same = word == benchmark
            continue
        # the form of one word, --limit=3, or of two; a token can begin with a dash
        two = "=" not in word and after and (word == "--entry" or not after[0].startswith("-"))
        options.append([word, after.pop(0)] if two else [word])
    left_out = ("--entry",) if same else ("--entry", "--task")
    return [word for option in options if option[0].partition("=")[0] not in left_out for word in option]


def apply(change: Change, benchmark: str | None) -> bool:
    """Write the entry for a benchmark, or remove it (None); return whether that changed the file.

    An agent may write its file meanwhile. Then the edit is made again, in what the agent wrote.

    Raises:
        BenchError: the file cannot be read or written; it is unchanged.
        UnreadableSettingsError: the agent itself could not read it, or an edit would change more.
        WrongUseError: another server has the name.
    """
    for _ in range(TRIES):
        text = change.text()
        present = change.present(text)
        entry = None if benchmark is None else wanted(change, present, benchmark)
        if present == entry:
            return False
        after = change.edited(text, entry)
        if change.text() == text:
            write(change.path, after)
            return True
    raise BenchError(f"{change.path} is unchanged: the agent keeps writing it; end the agent and try again")


def others(content: dict[str, Any], keys: Sequence[str]) -> dict[str, Any]:
    """Return a file's content without our entry, and without tables that have nothing else."""
    name, *inner = keys
    kept = {key: value for key, value in content.items() if key != name}
    if inner and (table := others(content.get(name, {}), inner)):
        kept[name] = table
    return kept


def write(path: Path, text: str) -> None:
    """Replace a file atomically. Follows links and keeps the file's mode and owner."""
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
        raise BenchError(f"there is no command mcp-bench: install mcp-bench for {sys.executable}")
    return os.path.abspath(found)  # noqa: PTH100 - resolving would leave the virtual environment
