"""Any agent that speaks the Agent Client Protocol (ACP), by our own client of that protocol.

The protocol: https://agentclientprotocol.com. Most agents need only their command; `profiles.py` has the
others.
"""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from mcp_bench.plugins.acp.login import joined, named_login
from mcp_bench.plugins.acp.profile import OPTIONS, Profile
from mcp_bench.plugins.acp.profiles import PROFILES, profile_of
from mcp_bench.plugins.acp.session import fault, read_session
from mcp_bench.plugins.agent_folder import AgentFolder
from mcp_bench.plugins.cli_agent import NoVersionError, SlowVersionError, find_executable
from mcp_bench.plugins.contracts import (
    AgentOutput,
    Capabilities,
    Installation,
    Launch,
    LaunchRequest,
    McpServer,
    Transcript,
)
from mcp_bench.plugins.own_clients import base as own_client
from mcp_bench.servers.errors import WrongUseError
from mcp_bench.servers.terminal.sanitize import sanitize_line

PLAN = "acp-plan.json"
PLAN_BYTES = 1 << 20
VERSION_SECONDS = 30.0
"""Node programs take seconds to start on a busy machine."""
UNKNOWN_VERSION = "unknown"


class Acp:
    """The plugin for all agents; `for_options` returns the one for the agent of a command."""

    name = "acp"
    summary = "Any agent that speaks the Agent Client Protocol: --agent-option command='kimi acp'."
    capabilities = Capabilities(
        builtin_tools_off=False, reports_usage=True, reports_reasoning=True, http=True
    )
    options: Mapping[str, str] = {
        "command": "starts the agent, such as 'gemini --acp' or 'opencode acp' (needed)",
        "login": "your variables to pass on, or your login files to lend, with commas between, such as "
        "'KEY,~/.helper/key.json'",
        "login_method": "id of the ACP method to log in with, where the agent asks for that",
        "mode": "session mode to choose, where the agent has several",
        "effort": "reasoning effort, where the agent's profile knows how",
        "max_retries": "attempts again on failed model requests, where the agent's profile knows how",
        "wait": "seconds for the agent to list the tools before the first prompt (default 120)",
    }

    def for_options(self, options: Mapping[str, str]) -> AcpAgent:
        """Return the plugin of the agent that the option `command` starts.

        Raises:
            WrongUseError: there is no such option, or it is no command.
        """
        return AcpAgent(command_of(options))

    def find(self, environ: Mapping[str, str]) -> Installation:
        """Return our own client, which is always installed; `for_options` is needed to find the agent."""
        return own_client.installation()

    def prepare(self, request: LaunchRequest) -> Launch:
        """Find and prepare the agent that the option `command` names.

        Raises:
            BenchError: as `AcpAgent.find` and `AcpAgent.prepare` do.
        """
        agent = self.for_options(request.options)
        return agent.prepare(replace(request, installation=agent.find(request.environ)))

    def read(self, output: AgentOutput, server: McpServer) -> Transcript:
        return read(output, server)


class AcpAgent(Acp):
    """One agent, bound to the command that starts it."""

    def __init__(self, command: tuple[str, ...]) -> None:
        self.command = command
        self.profile: Profile = profile_of(command)
        self.name = f"acp:{self.profile.name}"
        self.capabilities = self.profile.capabilities
        self.needs = self.profile.needs

    def find(self, environ: Mapping[str, str]) -> Installation:
        """Look for the program, and ask it for its version; any program can be named, so not for long.

        Raises:
            MissingDependencyError: it is not on PATH, or it does not start; or it has a profile and prints no
                version.
        """
        try:
            return find_executable(
                self.command[0],
                environ,
                self.profile.install,
                seconds=VERSION_SECONDS,
                notice=self._show_waiting,
            )
        except NoVersionError as error:  # it may speak the protocol all the same
            if isinstance(error, SlowVersionError):
                reason = str(error)
            elif self.profile.name not in PROFILES:
                reason = f"{error.executable} prints no version for --version"
            else:
                raise
            _say(f"{reason}. Its version is stored as {UNKNOWN_VERSION!r}")
            return Installation(error.executable, UNKNOWN_VERSION)

    def _show_waiting(self) -> None:
        _say(f"asking `{shlex.join(self.command)}` for its version ...")

    def prepare(self, request: LaunchRequest) -> Launch:
        """Write the plan for our client and return the client's command.

        Raises:
            LoginMissingError: the agent has no login.
            WrongUseError: an option has a value that makes no sense or would be ignored, or the agent takes
                no model or endpoint.
        """
        for name in OPTIONS:
            if request.options.get(name) and name not in self.profile.options:
                raise WrongUseError(
                    f"agent option {name}: we cannot set it for {self.profile.name}: leave it out"
                )
        opening = self.profile.open(request)
        env, lent = named_login(request)
        words = [request.installation.executable, *map(from_here, self.command[1:])]
        plan: dict[str, Any] = {
            "command": [*words, *opening.arguments],
            "mcpServers": [entry(request.server)] if opening.server_by_session else [],
            "meta": opening.meta,
            "login": request.options.get("login_method", opening.login),
            "model": request.model if opening.model_by_session else None,
            "mode": request.options.get("mode"),
            "choices": opening.choices,
            "server": request.server.name,
            "allow": tools_of(request.server) if request.tools == "mcp-only" else None,
            "ready": str(request.ready) if request.ready else None,
            "wait": seconds(request.options.get("wait", "120")),
            "settle": opening.settle,
        }
        path = request.home / PLAN
        path.write_text(json.dumps(plan), encoding="utf-8")
        for number, word in enumerate(words):  # a sandbox makes the targets of links readable
            if is_file(word):
                (request.home / f"command-{number}").symlink_to(Path(word).absolute())
        return own_client.started(
            "acp",
            [f"--plan={path}"],
            stdin=request.prompt.encode(),
            env={**opening.env, **env},
            login=joined([loan for loan in (lent, opening.user_login) if loan]),
        )

    def read(self, output: AgentOutput, server: McpServer) -> Transcript:
        return read(output, server, self.profile)


def read(output: AgentOutput, server: McpServer, profile: Profile | None = None) -> Transcript:
    """Read the client's events, and the agent's own files if its profile knows them."""
    profile = profile or profile_of(planned(output.private))
    session = read_session(output.stdout, server)
    profile.read(session, output, server)
    transcript = session.transcript()
    transcript.fault = fault(session, transcript.answer, output, profile.failure)
    return transcript


def _say(text: str) -> None:
    click.echo(sanitize_line(text), err=True)


def planned(home: AgentFolder) -> tuple[str, ...]:
    """Return the command in the plan, or `unknown`: the agent may have overwritten the plan."""
    try:
        return tuple(map(str, json.loads(home.read(PLAN, limit=PLAN_BYTES))["command"]))
    except (OSError, RecursionError, ValueError, LookupError, TypeError):
        return ("unknown",)


def command_of(options: Mapping[str, str]) -> tuple[str, ...]:
    try:
        words = tuple(shlex.split(options.get("command", "")))
    except ValueError as error:
        raise WrongUseError(f"agent option command={options['command']}: {error}") from error
    if not words:
        raise WrongUseError("agent 'acp' needs the command of the agent: --agent-option command='kimi acp'")
    return words


def from_here(word: str) -> str:
    """Return a word of the command; a file's path as an absolute one, since the agent starts elsewhere."""
    looks_like_path = "/" in word or "." in word  # `acp` is no path, whatever is in this folder
    return str(Path(word).absolute()) if looks_like_path and is_file(word) else word


def is_file(word: str) -> bool:
    return os.path.isfile(word)  # noqa: PTH113 - `Path.is_file` raises for a word that is too long for a name


def entry(server: McpServer) -> dict[str, Any]:
    """Return the server in the form of `session/new`."""
    if server.url is not None:
        return {"type": "http", "name": server.name, "url": server.url, "headers": []}
    program, *arguments = server.command
    return {"name": server.name, "command": program, "args": arguments, "env": []}


def tools_of(server: McpServer) -> dict[str, list[str] | None]:
    """Return the arguments of each tool, as far as they are known."""
    known = server.arguments
    return {tool: list(known[tool]) if tool in known else None for tool in server.tools}


def seconds(text: str) -> float:
    try:
        value = float(text)
        if 0 < value <= 3600:
            return value
    except ValueError:
        pass
    raise WrongUseError(f"agent option wait={text}: should be seconds, more than 0 and at most 3600")
