"""The base class for agents that are a command-line program, and what their plugins share."""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Generic, TypeVar

from mcp_bench.plugins.bounded_command import answer_of
from mcp_bench.plugins.contracts import (
    AgentOutput,
    Capabilities,
    Fault,
    Installation,
    Launch,
    LaunchRequest,
    LentLogin,
    McpServer,
    Transcript,
)
from mcp_bench.plugins.needs import PLACEHOLDER, Needs
from mcp_bench.plugins.output import Session
from mcp_bench.plugins.reaper import NOT_STARTED
from mcp_bench.servers.errors import MissingDependencyError, WrongUseError

VERSION_SECONDS = 60.0
INTERPRETER_MISSING = (126, 127)
"""Exit codes of `env` and of shells: they could not start what a script names."""
MCP_CONFIG = "mcp.json"
"""Relative to the private HOME: the file that `CliAgent.setup` writes."""

SessionT = TypeVar("SessionT", bound=Session)


class CliAgent(ABC, Generic[SessionT]):
    """An agent that is a command-line program.

    It implements the three methods of `mcp_bench.plugins.contracts.Agent`. A subclass names its program and
    adds its particulars:

        class Quill(CliAgent[Session]):
            name, program, install = "quill", "quill", "pip install quill"
            needs = Needs(login=("QUILL_API_KEY",), endpoint_variables=("QUILL_BASE_URL",))
            def arguments(self, request): return [f"--mcp={request.home / MCP_CONFIG}"]
            def read_session(self, output, server): return session_of(json_lines(output.stdout))

    The methods are in the order in which an episode calls them. All have a default except `arguments` and
    `read_session`. The class is a convenience: any class with the three methods is a plugin.
    """

    name: str
    summary: str = ""
    capabilities: Capabilities = Capabilities()
    needs: Needs = Needs()
    options: Mapping[str, str] = {}
    program: str
    """Name of the program on PATH."""
    install: str
    """The command that installs it, or where to read how."""

    def find(self, environ: Mapping[str, str]) -> Installation:
        return find_executable(self.program, environ, self.install)

    def prepare(self, request: LaunchRequest) -> Launch:
        """Write the configuration and return the command.

        Raises:
            LoginMissingError: there is no login.
            WrongUseError: an option has a value that makes no sense.
        """
        env, login = self.environment(request)
        self.setup(request, env)
        argv = (request.installation.executable, *self.arguments(request))
        return Launch(argv, env, stdin=self.stdin(request), login=login)

    def environment(self, request: LaunchRequest) -> tuple[dict[str, str], LentLogin | None]:
        """Return the program's variables, with its login, and the login file that it is lent."""
        env, login = self.log_in(request)
        return {**self.configuration_variables(request), **env}, login

    def configuration_variables(self, request: LaunchRequest) -> dict[str, str]:
        """Return the variables that configure the program, without its login."""
        return {}

    def log_in(self, request: LaunchRequest) -> tuple[dict[str, str], LentLogin | None]:
        """Return the variables that log the program in, or lend it the user's login file.

        Raises:
            LoginMissingError: there is no login.
            WrongUseError: an endpoint is named, and the program can use no other one than its own.
        """
        environ = request.environ
        if request.base_url and not self.needs.own_endpoint:
            raise WrongUseError(f"{self.name} asks its makers' models only: leave out --base-url")
        if url := self.endpoint(request):
            return self.use_endpoint(request, url), None
        names = self.login_variables(request)
        found = [(name, value) for name in names if (value := environ.get(name))]
        if request.native:  # the program finds its login by itself; only the file's use is reported
            files = [] if found else [file for file in self.needs.login_files if file.is_there(environ)]
            return {}, files[0].lent(environ) if files else None
        return (dict(found[:1]), None) if found else self.lend_login(request)

    def endpoint(self, request: LaunchRequest) -> str | None:
        """Return the model endpoint to use instead of the default one.

        In the user's own HOME, the program finds the user's endpoint by itself.
        """
        named = () if request.native else self.needs.endpoint_variables
        return next(filter(None, (request.base_url, *map(request.environ.get, named))), None)

    def use_endpoint(self, request: LaunchRequest, url: str) -> dict[str, str]:
        """Return the variables that direct requests to `url`, with a key.

        Raises:
            WrongUseError: `needs` names no variables for that.
        """
        variables, keys = self.needs.endpoint_variables, self.needs.endpoint_login
        if not (variables and keys):
            raise WrongUseError(
                f"the plugin of {self.name} does not know how to use another endpoint: leave out --base-url"
            )
        return {variables[0]: url, keys[0]: first_set(request.environ, keys) or PLACEHOLDER}

    def login_variables(self, request: LaunchRequest) -> Sequence[str]:
        """Return the user's variables that log in; the first one that is set counts."""
        return self.needs.login

    def lend_login(self, request: LaunchRequest) -> tuple[dict[str, str], LentLogin]:
        """Lend the user's login file, by default as a link in the private HOME.

        Raises:
            LoginMissingError: there is no such file.
        """
        environ = request.environ
        for file in self.needs.login_files:
            if file.is_there(environ):
                return {}, file.lend(environ, request.home / file.folder)
        raise self.needs.login_missing(self.name, environ, self.login_variables(request))

    def setup(self, request: LaunchRequest, env: Mapping[str, str]) -> None:
        """Write the program's configuration, by default `mcp.json` in the form that most agents read.

        Args:
            env: what `environment` returned.
        """
        text = json.dumps(mcp_servers(request.server))
        (request.home / MCP_CONFIG).write_text(text, encoding="utf-8")

    @abstractmethod
    def arguments(self, request: LaunchRequest) -> list[str]:
        """Return the command's arguments."""

    def stdin(self, request: LaunchRequest) -> bytes:
        """Return the standard input, by default the prompt."""
        return request.prompt.encode()

    def read(self, output: AgentOutput, server: McpServer) -> Transcript:
        session = self.read_session(output, server)
        return session.transcript(self.fault(session, output, server))

    @abstractmethod
    def read_session(self, output: AgentOutput, server: McpServer) -> SessionT:
        """Read the session as far as it exists and makes sense. Never raises on odd content."""

    def fault(self, session: SessionT, output: AgentOutput, server: McpServer) -> Fault | None:
        """Return what failed outside the agent, if anything did."""
        return None


class NoVersionError(MissingDependencyError):
    """A program starts, but does not say its version."""

    def __init__(self, executable: str, text: str) -> None:
        super().__init__(text)
        self.executable = executable


class SlowVersionError(NoVersionError):
    """A program did not print its version in time."""


def find_executable(
    name: str,
    environ: Mapping[str, str],
    install: str,
    *,
    seconds: float = VERSION_SECONDS,
    notice: Callable[[], object] | None = None,
) -> Installation:
    """Look for `name` on the PATH of `environ` and ask it for its version.

    Args:
        name: of the program.
        environ: the user's environment.
        install: the command that installs it.
        seconds: the time limit. Afterwards no process of it is left.
        notice: called if it takes more than a moment.

    Raises:
        MissingDependencyError: it is missing, or does not start.
        NoVersionError: it prints no version, or (SlowVersionError) not in time.
    """
    path = environ.get("PATH", "")
    found = shutil.which(name, path=path)
    if found is None:
        raise MissingDependencyError(f"{name!r} is not on PATH; install it with: {install}")
    return _ask_version(str(Path(found).absolute()), path, install, seconds, notice)


@cache
def _ask_version(
    executable: str, path: str, install: str, seconds: float, notice: Callable[[], object] | None
) -> Installation:
    with tempfile.TemporaryDirectory(prefix="mcp-bench-", ignore_cleanup_errors=True) as home:
        answer = answer_of(
            [executable, "--version"],
            env={"PATH": path, "HOME": home, "LANG": "C.UTF-8"},
            cwd=home,
            seconds=seconds,
            notice=notice,
        )
    if answer.late:
        raise SlowVersionError(
            executable,
            f"{executable} did not print its version within {seconds:g} s; run `{executable} --version` "
            f"yourself, or install it again with: {install}",
        )
    words = (answer.stderr or answer.stdout).decode(errors="replace").strip()[-500:]
    if answer.code == NOT_STARTED:
        raise MissingDependencyError(
            f"{executable} does not start ({words}); install it again with: {install}"
        )
    version = re.search(r"\d+\.\d+[\w.+-]*", answer.stdout.decode(errors="replace"))
    if answer.code != 0 or version is None:
        text = (
            f"{executable} --version failed (exit code {answer.code}): {words or 'no output'}; "
            f"install it again with: {install}"
        )
        if answer.code in INTERPRETER_MISSING:
            raise MissingDependencyError(text)
        raise NoVersionError(executable, text)
    return Installation(executable, version.group().rstrip("."))


def mcp_servers(server: McpServer) -> dict[str, Any]:
    """Return `{"mcpServers": {...}}`, the form that most agents read, with one server."""
    if server.url is not None:
        entry: dict[str, Any] = {"type": "http", "url": server.url}
    else:
        executable, *args = server.command
        entry = {"type": "stdio", "command": executable, "args": args}
    return {"mcpServers": {server.name: entry}}


def first_set(environ: Mapping[str, str], names: Sequence[str]) -> str | None:
    """Return the value of the first of the variables `names` that is set and not empty."""
    return next(filter(None, map(environ.get, names)), None)


def whole_number(options: Mapping[str, str], key: str) -> int | None:
    """Return an `--agent-option` that counts something, or None if it is not given.

    Raises:
        WrongUseError: it is not a whole number from 0 to 100.
    """
    text = options.get(key)
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and int(text) <= 100):
        raise WrongUseError(f"agent option {key}={text}: should be a whole number from 0 to 100")
    return int(text)
