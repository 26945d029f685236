"""What an agent needs to log in: a variable of the user's environment, or the file that its own login wrote.

Nothing here opens such a file. It is lent: the agent works on the original, so that a token that it
renews is the user's from then on, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from mcp_bench.plugins.contracts import LentLogin
from mcp_bench.servers.errors import BenchError

PLACEHOLDER = "none"
"""Sent to an endpoint of the user's own that asks for no key, by agents that insist on one."""


class LoginMissingError(BenchError):
    """The agent would have no login; the text says which variables to set, and how to log in."""


@dataclass(frozen=True)
class LoginFile:
    """Where a command line keeps its login, and how the file takes being used from elsewhere."""

    name: str
    folder: str
    """In HOME."""
    command: str
    """Logs in."""
    variables: tuple[str, ...] = ()
    """Name the folder instead, the first that is set, ..."""
    below: str = ""
    """... or one above it: where it is below that."""
    beside: tuple[str, ...] = ()
    """Files in the folder that go with it, where they are there."""
    alone: str = ""
    """Why two episodes must not use it at once; empty where that was seen to go well."""

    def at(self, environ: Mapping[str, str]) -> Path:
        told = next(filter(None, map(environ.get, self.variables)), None)
        folder = Path(told, self.below) if told else Path(environ.get("HOME") or "/", self.folder)
        return folder.absolute() / self.name

    def is_there(self, environ: Mapping[str, str]) -> bool:
        try:
            return self.at(environ).is_file()
        except OSError:  # not ours to look at
            return False

    def lent(self, environ: Mapping[str, str]) -> LentLogin:
        """Return what an agent is lent that works on the original, by whatever way."""
        path, why = self.at(environ), ""
        if self.alone:
            why = f"the login in {path} is for one episode at a time: {self.alone}"
        return LentLogin((path, path.parent), why)

    def lend(self, environ: Mapping[str, str], folder: Path) -> LentLogin:
        """Put links to the originals into `folder`, for a command line that writes through a link."""
        folder.mkdir(parents=True, exist_ok=True)
        original = self.at(environ)
        beside = [path for name in self.beside if (path := original.with_name(name)).is_file()]
        for path in (original, *beside):
            (folder / path.name).symlink_to(path)
        return self.lent(environ)


def login(
    agent: str, environ: Mapping[str, str], names: Sequence[str], file: LoginFile
) -> tuple[str, str] | None:
    """Return the first of the variables `names` that is set, and its value; None: the file is there to lend.

    Raises:
        LoginMissingError: there is no login.
    """
    for name in names:
        if value := environ.get(name):
            return name, value
    if file.is_there(environ):
        return None
    raise LoginMissingError(
        f"{agent} has no login: set {' or '.join(names)}, or run `{file.command}` (there is no "
        f"{file.at(environ)}), or name an endpoint of your own"
    )


def native_login(environ: Mapping[str, str], names: Sequence[str], file: LoginFile) -> LentLogin | None:
    """Return the file that an agent in the user's own HOME is going to use, as far as that can be told."""
    if any(map(environ.get, names)) or not file.is_there(environ):
        return None
    return file.lent(environ)
