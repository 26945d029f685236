"""What an agent needs from the machine: its version, Node.js, an endpoint, and a login.

A login is a variable in the user's environment, or the file that the agent's own login command wrote. No
code here opens such a file. It is lent: the agent works on the original, so that a token that the agent
renews is renewed for the user, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol, runtime_checkable

from mcp_bench.plugins.contracts import Agent, LentLogin
from mcp_bench.servers.errors import BenchError

ModelApi = Literal["chat-completions", "responses", "anthropic-messages", "gemini"]
PLACEHOLDER = "none"
"""Sent as the key to a user's own endpoint that needs none, by agents that insist on a key."""


class LoginMissingError(BenchError):
    """The agent would have no login; the text says which variables to set, and how to log in."""


@dataclass(frozen=True)
class LoginFile:
    """Where a command-line program keeps its login, and how the file may be used from elsewhere."""

    name: str
    folder: str
    """Relative to HOME."""
    command: str
    """The command that logs in."""
    variables: tuple[str, ...] = ()
    """Variables that name the folder instead. The first one that is set counts."""
    below: str = ""
    """Where the folder is below the path in the variable."""
    beside: tuple[str, ...] = ()
    """Other files in the folder that belong to the login, if they exist."""
    alone: str = ""
    """Why two episodes must not use it at the same time. Empty if tests have shown that they can."""

    def at(self, environ: Mapping[str, str]) -> Path:
        moved = next(filter(None, map(environ.get, self.variables)), None)
        folder = Path(moved, self.below) if moved else Path(environ.get("HOME") or "/", self.folder)
        return folder.absolute() / self.name

    def is_there(self, environ: Mapping[str, str]) -> bool:
        try:
            return self.at(environ).is_file()
        except OSError:  # not readable by this user
            return False

    def lent(self, environ: Mapping[str, str]) -> LentLogin:
        """Return the loan of the original file."""
        path, why = self.at(environ), ""
        if self.alone:
            why = f"the login in {path} is for one episode at a time: {self.alone}"
        return LentLogin((path, path.parent), why)

    def lend(self, environ: Mapping[str, str], folder: Path) -> LentLogin:
        """Put links to the originals into `folder`, for a program that writes through a link."""
        folder.mkdir(parents=True, exist_ok=True)
        original = self.at(environ)
        beside = [path for name in self.beside if (path := original.with_name(name)).is_file()]
        for path in (original, *beside):
            link = folder / path.name
            if not (link.is_symlink() and link.readlink() == path):  # it may be lent twice
                link.symlink_to(path)
        return self.lent(environ)


@dataclass(frozen=True)
class Needs:
    """The requirements of one agent.

    An agent class can have one as its attribute `needs`. `mcp-bench doctor` checks what it states.
    """

    model: bool = True
    """It asks a model."""
    tested: str | None = None
    """The version that the plugin was written for and is tested with."""
    node: int | None = None
    """The oldest major version of Node.js that it works with."""
    login: tuple[str, ...] = ()
    """The user's variables, any of which logs in."""
    bound: tuple[str, ...] = ()
    """Those variables of `login` that only work with the default endpoint."""
    own_endpoint_login: tuple[str, ...] = ()
    """Variables that can hold the key of the user's own endpoint, if they are not `login` without `bound`."""
    login_files: tuple[LoginFile, ...] = ()
    log_in: str = ""
    """The command with which the user logs in."""
    endpoint: str | None = None
    """URL of its default model endpoint; None if that depends on the model."""
    endpoints: Mapping[str, str] = field(default_factory=dict)
    """Default endpoints that go with a variable of `login`."""
    endpoint_variables: tuple[str, ...] = ()
    """Variables that name another endpoint."""
    own_endpoint: bool = True
    """It can use another endpoint (`--base-url`)."""
    api: ModelApi | None = None
    """The model API that it speaks with another endpoint."""
    endpoint_keys: tuple[str, ...] = ()
    """Variables in which its plugin passes it the key of another endpoint, besides those of `login`."""

    @property
    def endpoint_login(self) -> tuple[str, ...]:
        """The user's variables that can hold the key of the user's own endpoint."""
        return self.own_endpoint_login or self.free_login

    @property
    def free_login(self) -> tuple[str, ...]:
        """The variables of `login` that are not `bound`."""
        return tuple(name for name in self.login if name not in self.bound)

    def endpoint_for(self, environ: Mapping[str, str], base_url: str | None = None) -> str | None:
        """Return where its model requests would go, or None if that is unknown."""
        candidates = [base_url if self.own_endpoint else None]
        candidates += [environ.get(name) for name in self.endpoint_variables]
        candidates += [
            self.endpoints[name] for name in self.login if environ.get(name) and name in self.endpoints
        ]
        return next(filter(None, candidates), self.endpoint)

    def login_missing(
        self, agent: str, environ: Mapping[str, str], names: Sequence[str]
    ) -> LoginMissingError:
        """Return the error that says how to log in: a variable of `names`, a login file, or an endpoint."""
        ways = [f"set {' or '.join(names)}"] if names else []
        ways += [f"run `{file.command}` (there is no {file.at(environ)})" for file in self.login_files]
        ways += ["name an endpoint of your own"] if self.own_endpoint else []
        return LoginMissingError(f"{agent} has no login: {', or '.join(ways)}")


NOTHING = Needs(model=False)
"""For agents that ask no model."""


def needs_of(agent: Agent) -> Needs | None:
    """Return what an agent declares in its attribute `needs`, or None if it declares nothing."""
    needs = getattr(agent, "needs", None)
    return needs if isinstance(needs, Needs) else None


@runtime_checkable
class ChoosesApi(Protocol):
    """Optional: a client of ours, whose options choose the model API. It asks only where we say."""

    def variables(self, options: Mapping[str, str], environ: Mapping[str, str]) -> dict[str, str]:
        """Return the user's variables of the API that the client will use."""
        ...

    def api(self, options: Mapping[str, str], environ: Mapping[str, str]) -> ModelApi:
        """Return the API that the client will use."""
        ...

    def key_names(self, options: Mapping[str, str], environ: Mapping[str, str]) -> tuple[str, ...]:
        """Return the variables that can hold the key for that API."""
        ...
