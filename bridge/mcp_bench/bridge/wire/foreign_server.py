"""An MCP server that is no benchmark's: how the operator names it, and the run that is made with it."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from mcp_bench.recorder.records import PlannedEpisode
from mcp_bench.servers.errors import MissingDependencyError, WrongUseError

BENCHMARK = "server"
"""Stands in a run for the benchmark."""
NO_VERSION = "-"
NO_SPLIT = "none"


@dataclass(frozen=True)
class ForeignServer:
    """A command to start, or a URL."""

    command: tuple[str, ...] = ()
    url: str | None = None

    @property
    def words(self) -> list[str]:
        """The command, or the URL alone, as it is stored with the run."""
        return [self.url] if self.url is not None else list(self.command)


def parse_server(text: str, environ: Mapping[str, str] = os.environ) -> ForeignServer:
    """Read `--server`: an http(s) URL, or a command line as a shell would split it.

    Raises:
        WrongUseError: it is neither.
        MissingDependencyError: there is no such command.
    """
    if text.startswith(("http://", "https://")):
        parts = urlsplit(text)
        if parts.username or parts.password:
            raise WrongUseError("--server: the URL has a user or password in it, and logins are never stored")
        return ForeignServer(url=text)
    try:
        command = tuple(shlex.split(text))
    except ValueError as error:
        raise WrongUseError(f"--server {text!r} is no command line: {error}") from error
    if not command:
        raise WrongUseError("--server is empty: give a command line, or a URL")
    return found_server(command, environ)


def found_server(words: Sequence[str], environ: Mapping[str, str] = os.environ) -> ForeignServer:
    """Return the server that a run was made with, if it can be started here.

    Raises:
        MissingDependencyError: there is no such command.
    """
    if len(words) == 1 and words[0].startswith(("http://", "https://")):
        return ForeignServer(url=words[0])
    if shutil.which(words[0], path=environ.get("PATH")) is None:
        raise MissingDependencyError(f"--server: there is no command {words[0]!r}: is it installed?")
    return ForeignServer(command=tuple(words))


def plan_prompts(prompts: Sequence[str], repeat: int) -> list[PlannedEpisode]:
    """Return every episode of a run: all prompts once, then all of them again, `repeat` times.

    Raises:
        WrongUseError: there is no prompt, or one says nothing.
    """
    if not prompts:
        raise WrongUseError("say what the agent is to do with --prompt or --prompt-file")
    if not all(prompt.strip() for prompt in prompts):
        raise WrongUseError("a prompt is empty")
    return [
        PlannedEpisode(
            task=f"prompt_{number}", split=NO_SPLIT, domain=BENCHMARK, prompt=prompt, repeat=attempt
        )
        for attempt in range(repeat)
        for number, prompt in enumerate(prompts, 1)
    ]
