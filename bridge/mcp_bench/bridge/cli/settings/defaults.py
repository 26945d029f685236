"""Defaults of options from files: which of them apply, checked by the options themselves.

A table is named like a command (`[record]`, `[train.sft]`), a key like an option (`max-calls`). click then
takes the command line, the environment, the file and the built-in default, in this order.

A project's file comes with a repository that may be somebody else's. It may choose what is run: the agent,
the tasks, how many at a time. All else (programs, addresses, files, isolation, cost limits) is the user's.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

import click

from mcp_bench.bridge.cli.settings.settings_files import SettingsFile, settings_files, user_path
from mcp_bench.servers.errors import BenchError, WrongUseError, suggestion

PROJECT_OPTIONS = frozenset(
    {
        "agent",
        "attempts",
        "benchmark",
        "best",
        "by",
        "format",
        "jobs",
        "limit",
        "max-calls",
        "min-partial",
        "model",
        "patience",
        "repeat",
        "retries",
        "retry-wait",
        "seed",
        "seeds",
        "size",
        "split",
        "strict",
        "tag",
        "task",
        "teacher",
        "teacher-model",
        "temperature",
        "timeout",
        "turns",
    }
)
"""All that a project's file may set, in any command. What is not listed is refused, in new commands too."""
REQUESTS = frozenset(
    {
        "accept",
        "config",
        "config-schema",
        "dry-run",
        "force",
        "help",
        "note",
        "prompt",
        "push",
        "resume",
        "server",
        "show",
        "version",
        "yes",
    }
)
"""They ask for something to be done now, so they are typed."""
STARTED_BY_AGENTS = frozenset({"connect", "experience", "proxy", "serve"})
"""Agents start these in a folder of theirs, where they could choose their own tasks."""
BELONGING = {"agent": ("model", "base_url", "agent_command", "options"), "benchmark": ("path",)}
"""Parameters of `record` that belong to the agent or the benchmark that the same file names."""
REFUSED = "is refused in a project's file"
PROJECT = "mcp_bench.bridge.cli.settings.defaults.project"
_SHOWN = 60
_KINDS: dict[str, tuple[tuple[type, ...], str]] = {
    "boolean": ((bool,), "true or false"),
    "integer": ((int,), "a whole number"),
    "integer range": ((int,), "a whole number"),
    "float": ((int, float), "a number"),
    "float range": ((int, float), "a number"),
}
_TEXT = ((str, int, float), "a string")


@dataclass(frozen=True)
class Setting:
    """A default from a file."""

    command: tuple[str, ...]
    option: str
    parameter: str
    """click's name of the option."""
    value: Any
    file: SettingsFile


def take_defaults(context: click.Context, command: str) -> None:
    """Give a command the defaults that the files in force have for it.

    Args:
        context: the root command's.
        command: the subcommand that is about to be parsed.

    Raises:
        WrongUseError: a file is not valid. The text says where and what to do.
    """
    files = settings_files()
    if not files:
        return
    settings, problems = read_settings(context, files, command)
    if problems:
        raise WrongUseError("\n".join(problems))
    context.default_map = default_map(settings)
    context.meta[PROJECT] = [setting for setting in settings if not setting.file.own]


def read_settings(
    context: click.Context, files: Sequence[SettingsFile], only: str | None = None
) -> tuple[list[Setting], list[str]]:
    """Check files and return their settings, the strongest last, and what is wrong with them.

    Args:
        context: the root command's.
        files: the strongest last.
        only: the one command to check; None checks all.
    """
    found: list[Setting | str] = []
    root = context.command
    assert isinstance(root, click.Group)  # noqa: S101 - for mypy
    known = root.list_commands(context)
    for file in files:
        for name, table in file.tables.items():
            if not isinstance(table, dict):
                found.append(f"{file.path}: {name} is outside of a table: put it below one, as in [record]")
            elif name not in known:  # perhaps that of a package that is not installed here
                if only is None or get_close_matches(name, known, cutoff=0.8):
                    found.append(f"{file.path}: [{name}] is not a command{suggestion(name, known)}")
            elif only in (None, name):
                try:
                    command = root.get_command(context, name)
                except BenchError as error:
                    found.append(f"{file.path}: [{name}] cannot be checked: {error}")
                    continue
                assert command is not None  # noqa: S101 - it is known
                found += _Table(file, (name,), click.Context(command, context, name)).settings(table)
    settings = [one for one in found if isinstance(one, Setting)]
    return settings, [one for one in found if isinstance(one, str)]


def default_map(settings: Sequence[Setting]) -> dict[str, Any]:
    """Return settings in the form of click, by command and parameter."""
    result: dict[str, Any] = {}
    for setting in settings:
        table = result
        for name in setting.command:
            table = table.setdefault(name, {})
        if table.get(setting.parameter, setting.value) != setting.value:
            for name in BELONGING.get(setting.parameter, ()):  # a weaker file's, for another one
                table.pop(name, None)
        table[setting.parameter] = setting.value
    return result


def project_line(context: click.Context) -> str | None:
    """Return what a command takes from a project's file, or None. People should see what a repository chose.

    Args:
        context: the command's, with its values parsed.
    """
    taken = [
        setting
        for setting in context.meta.get(PROJECT, ())
        if context.get_parameter_source(setting.parameter) is click.core.ParameterSource.DEFAULT_MAP
    ]
    if not taken:
        return None
    return f"From {taken[0].file.path}: {', '.join(f'{one.option} {_shown(one.value)}' for one in taken)}"


def forget_others(context: click.Context, values: dict[str, Any]) -> None:
    """Remove what the files say about their agent or benchmark, if the command line names another one."""
    for owner, names in BELONGING.items():
        stored = (context.default_map or {}).get(owner)
        if stored is None or values[owner] == stored:
            continue
        for name in names:
            if context.get_parameter_source(name) is click.core.ParameterSource.DEFAULT_MAP:
                values[name] = {} if name == "options" else None
                context.set_parameter_source(name, click.core.ParameterSource.DEFAULT)


@dataclass(frozen=True)
class _Table:
    """A table of a file, and the command that it is for."""

    file: SettingsFile
    names: tuple[str, ...]
    context: click.Context

    def settings(self, table: Mapping[str, Any]) -> Iterator[Setting | str]:
        """Yield the settings, and a text for each key that is wrong."""
        if not self.file.own and self.names[0] in STARTED_BY_AGENTS:
            command = f"`mcp-bench {self.names[0]}`"
            yield self._text("", f"{REFUSED}: agents start {command} in folders of theirs. {self._own()}")
            return
        group = self.context.command
        children = group.list_commands(self.context) if isinstance(group, click.Group) else []
        # agent and benchmark first: they decide which of a weaker file's settings stay
        for key, value in sorted(table.items(), key=lambda item: item[0] not in BELONGING):
            if isinstance(group, click.Group) and key in children and isinstance(value, dict):
                child = group.get_command(self.context, key)
                assert child is not None  # noqa: S101 - it is listed
                below = click.Context(child, self.context, key)
                yield from _Table(self.file, (*self.names, key), below).settings(value)
            else:
                yield self._setting(key, value, children)

    def _setting(self, key: str, value: Any, children: Sequence[str]) -> Setting | str:
        name = key.replace("_", "-")
        options = self._options()
        if name in REQUESTS:
            return self._text(key, f"is no default, because --{name} asks for something to be done now")
        if name not in options:
            near = suggestion(name, [*options, *children])
            return self._text(key, f"is not an option of `mcp-bench {' '.join(self.names)}`{near}")
        if not self.file.own and name not in PROJECT_OPTIONS:
            return self._text(key, f"{REFUSED}, which may be somebody else's. {self._own()}")
        if wanted := _expected(options[name], value):
            written = json.dumps(value, ensure_ascii=False, default=str)  # with quotes: "3" is no number
            return self._text(key, f"is {_shown(written)}, and should be {wanted}")
        several = value if isinstance(value, list) else [value]
        if not self.file.own and any(isinstance(one, str) and one.startswith("-") for one in several):
            return self._text(key, f"is {_shown(value)}: a program could read the dash as an option's")
        if not self.file.own and any(_names_a_file(name, one) for one in several):
            what = f"is {_shown(value)}: a file or folder {REFUSED}, which may be somebody else's"
            return self._text(key, f"{what}. {self._own()}")
        try:
            options[name].process_value(self.context, value)
        except click.BadParameter as error:
            return self._text(key, f"is {_shown(value)}: {error.message}")
        return Setting(self.names, name, str(options[name].name), value, self.file)

    def _options(self) -> dict[str, click.Option]:
        return {
            long.removeprefix("--"): param
            for param in self.context.command.params
            if isinstance(param, click.Option) and not param.hidden and not isinstance(param.type, click.File)
            for long in param.opts
            if long.startswith("--")
        }

    def _own(self) -> str:
        return f"Put it into your own file, {user_path()}"

    def _text(self, key: str, problem: str) -> str:
        where = f"[{'.'.join(self.names)}] {key}".strip()
        return f"{self.file.path}: {where} {problem}"


def _expected(option: click.Option, value: object) -> str | None:
    """Return what the value should be, or None if its type is right."""
    types, words = _KINDS.get(option.type.name, _TEXT)

    def fits(one: object) -> bool:
        return isinstance(one, types) and (isinstance(one, bool) <= (bool in types))

    if option.multiple or option.nargs != 1:
        listed = isinstance(value, list) and all(fits(one) for one in value)
        return None if listed else f"a list, each of it {words}"
    return None if fits(value) else words


def _names_a_file(option: str, value: object) -> bool:
    """Return whether a value is no name, but NAME:FOLDER, whose tasks have programs, or @FILE."""
    text = str(value)
    return (option == "benchmark" and ":" in text) or (option == "task" and text.startswith("@"))


def _shown(value: object) -> str:
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
