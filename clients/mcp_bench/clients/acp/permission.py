"""Answer an agent's requests for permission to use a tool (`session/request_permission`).

A request has no field for "tool X of server Y": agents say it in the title, in the input or in an extension,
each in its own words. A title can also be text of the model's, such as the command of a shell. So a name
alone is not enough where the rest of the call is that of a tool of the agent's own.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

ALLOW = ("allow_once", "allow_always")
REJECT = ("reject_once", "reject_always")

RISKY = ("execute", "edit", "delete", "move", "switch_mode")
"""Kinds of tools that change the machine. Some agents guess a server's tool to be one, from its name."""
READS = ("read", "fetch")
OWN_CONTENT = ("diff", "terminal")
OWN_INPUT = frozenset(
    {
        "abs_path",
        "absolute_path",
        "cmd",
        "command",
        "commands",
        "cwd",
        "diff",
        "file",
        "filePath",
        "file_path",
        "filepath",
        "new_str",
        "new_string",
        "old_str",
        "old_string",
        "patch",
        "path",
        "paths",
        "script",
        "url",
    }
)
"""Arguments of agents' own tools."""
SERVER_KEYS = ("server", "serverName", "server_name", "mcp_server", "mcpServer")
TOOL_KEYS = ("tool", "toolName", "tool_name", "name")
INPUT_KEYS = ("arguments", "args", "input", "params", "parameters", "data")
OTHER_KEYS = ("kind", "type", "id")

BEFORE = r"^(?:(?:mcp|tool|use|using|call|calling|run|running|invoke|execute)\b[:\s]*)*[\W_]*"
AFTER = r"(?=$|[`'\"\]]*(?:$|\s*[({\[:,]|\s+[-–—]\s|\s+with\b))"  # noqa: RUF001  (dashes that titles have)
BETWEEN = r"(?:__|\s*[:/]\s*|[_.-])"

Match = Literal["bare", "mentioned", "qualified"]


@dataclass(frozen=True)
class Verdict:
    """`tool` is the server's tool that a call is for, or perhaps for; None if it is another tool's."""

    tool: str | None
    allow: bool


NOT_OURS = Verdict(None, allow=False)


class Server:
    """The one server whose tools an agent may call, and how agents write their names."""

    def __init__(self, name: str, tools: Mapping[str, Collection[str] | None]) -> None:
        """Prepare the names.

        Args:
            name: the server's name.
            tools: the arguments of each of its tools, or None for a tool where they are unknown. Empty if
                the tools are unknown, too: then every tool that is named with the server is one.
        """
        self.name, self.tools = name, tools
        self._patterns: list[tuple[str, Match, str]] = []
        for tool in sorted(tools, key=len, reverse=True):
            self._patterns += [(tool, *pattern) for pattern in _patterns(_words(name), _words(tool))]
        if not tools:
            both = f"(?:mcp{BETWEEN})?{_words(name)}{BETWEEN}(?P<tool>[\\w.-]+)"
            self._patterns = [("", "qualified", f"{BEFORE}{both}{AFTER}"), ("", "mentioned", _apart(both))]

    def named(self, call: Mapping[str, Any]) -> tuple[str, Match] | None:
        """Return the tool that a call's title or extensions name, and how; the most certain way counts."""
        title = str(call.get("title") or "").strip()
        for text in _leaves(call.get("_meta")):
            for tool, how, pattern in self._patterns:
                found = _compiled(pattern).search(text)
                if found and how == "qualified" and found.end() == len(text):
                    return tool or found["tool"], how
        for wanted in ("qualified", "bare", "mentioned"):
            for tool, how, pattern in self._patterns:
                if how == wanted and (found := _compiled(pattern).search(title)):
                    return tool or found["tool"], how
        return None

    def states(self, given: Mapping[str, Any]) -> str | None:
        """Return the tool if an input states the server and the tool, and nothing that another tool takes."""
        if set(given) - {*SERVER_KEYS, *TOOL_KEYS, *INPUT_KEYS, *OTHER_KEYS}:
            return None
        servers = [given[key] for key in SERVER_KEYS if key in given]
        tools = [given[key] for key in TOOL_KEYS if key in given]
        if servers != [self.name] or len(tools) != 1 or not isinstance(tools[0], str):
            return None
        return tools[0] if tools[0] in self.tools or not self.tools else None

    def takes(self, tool: str, given: Mapping[str, Any] | None) -> bool | None:
        """Return whether a tool takes an input; None if that is unknown or the input is empty."""
        arguments = self.tools.get(tool)
        if arguments is None or given is None or (arguments and not given):
            return None
        return set(given) <= set(arguments) or set(_inner(given)) <= set(arguments)


def verdict(call: Mapping[str, Any], server: Server) -> Verdict:
    """Return whether a call is one of the server's tools.

    Args:
        call: all that the agent has reported of it, the request included.
    """
    kind = call.get("kind")
    content = [part.get("type") for part in call.get("content") or () if isinstance(part, dict)]
    if any(part in OWN_CONTENT for part in content):
        return NOT_OURS
    given = _object(call.get("rawInput"))
    if given and (stated := server.states(given)):
        return Verdict(stated, allow=True)
    if (named := server.named(call)) is None:
        return NOT_OURS
    tool, how = named
    fits = server.takes(tool, given)
    title = str(call.get("title") or "").strip(" `")
    by_model = title in (given or {}).values()
    own_input = bool(OWN_INPUT & set(given or ()) - set(server.tools.get(tool) or ()))
    if kind in RISKY:
        if how != "qualified" or by_model or own_input:
            return NOT_OURS
        return Verdict(tool, allow=bool(given) and fits is not False)
    if fits:
        return Verdict(tool, allow=True)
    if by_model or (own_input and (fits is False or how != "qualified")):
        return NOT_OURS
    if kind in READS and (own_input or how != "qualified"):
        return NOT_OURS
    if how == "bare" and fits is None:
        return Verdict(tool, allow=bool(given) or _only_names(tool, title))
    return Verdict(tool, allow=how == "qualified")


def decide(options: Collection[Mapping[str, Any]], *, allow: bool) -> dict[str, Any]:
    """Return the outcome to answer with: once only, if the agent offers that."""
    for kind in ALLOW if allow else REJECT:
        for option in options:
            if option.get("kind") == kind:
                return {"outcome": "selected", "optionId": option["optionId"]}
    return {"outcome": "cancelled"}


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    """Return a pattern compiled on first use: Python itself keeps 512, and a server may have more."""
    return re.compile(pattern, re.IGNORECASE)


def _words(name: str) -> str:
    """Return a pattern of a name: agents replace its signs, or write it as words."""
    return r"[\W_]".join(re.escape(part) for part in re.split(r"[\W_]", name))


def _patterns(server: str, tool: str) -> Iterator[tuple[Match, str]]:
    """Yield patterns of a title that begins with both names, with the tool's only, or has both somewhere.

    Args:
        server: a pattern of its name.
        tool: a pattern of its name.
    """
    both = f"(?:mcp{BETWEEN})?{server}{BETWEEN}{tool}"
    yield "qualified", f"{BEFORE}(?:{both}{AFTER}|{tool}_{server}{AFTER}|{tool}\\s+\\({server}\\b)"
    yield "bare", f"{BEFORE}{tool}{AFTER}"
    yield "mentioned", _apart(both)


def _apart(name: str) -> str:
    return rf"(?<![\w.-]){name}(?![\w-])"


def _only_names(tool: str, title: str) -> bool:
    """Return whether a title is a tool's name, perhaps with an input that no shell would run."""
    return (
        re.fullmatch(rf'{_words(tool)}(?::\s(?:\{{"[^\n]*|[^;&|$`\n]*))?', title, re.IGNORECASE) is not None
    )


def _leaves(value: Any, depth: int = 4) -> Iterator[str]:
    """Yield the texts in an extension."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict) and depth:
        for one in value.values():
            yield from _leaves(one, depth - 1)


def _object(value: Any) -> dict[str, Any] | None:
    """Return an input as an object: some agents send it as JSON text."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return None
    return value if isinstance(value, dict) else None


def _inner(given: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the input that another one wraps."""
    wrapped = [key for key in INPUT_KEYS if key in given]
    if len(wrapped) == 1 and not set(given) - {*wrapped, *TOOL_KEYS, *OTHER_KEYS}:
        inner = _object(given[wrapped[0]])
        return given if inner is None else inner
    return given
