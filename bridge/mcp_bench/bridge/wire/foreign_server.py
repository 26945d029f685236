"""Third-party MCP servers: how `--server` names them, and the episodes that are recorded with them."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from mcp_bench.bridge.model_endpoint.url import is_http_url
from mcp_bench.recorder.records import PlannedEpisode
from mcp_bench.servers.errors import MissingDependencyError, WrongUseError

BENCHMARK = "server"
"""Name in place of a benchmark."""
NO_VERSION = "-"
NO_SPLIT = "none"


@dataclass(frozen=True)
class ForeignServer:
    """A third-party server: a command to start, or a URL."""

    command: tuple[str, ...] = ()
    url: str | None = None

    @property
    def words(self) -> list[str]:
        """The command, or only the URL, as stored with the run."""
        return [self.url] if self.url is not None else list(self.command)


def parse_server(text: str) -> ForeignServer:
    """Parse `--server`: an http(s) URL, or a command line that is split as in a shell.

    Raises:
        WrongUseError: the text is neither, or the URL contains a login.
        MissingDependencyError: the command does not exist.
    """
    if text.startswith(("http://", "https://")):
        if not is_http_url(text):
            raise WrongUseError(f"--server: {text!r} is not a URL: give one like http://127.0.0.1:8000/mcp")
        parts = urlsplit(text)
        if parts.username or parts.password:
            raise WrongUseError("--server: the URL contains a user or password, but logins are never stored")
        if parts.query:
            raise WrongUseError(
                "--server: the URL contains a query, which can be a login, and logins are never stored. "
                "Start `mcp-bench proxy --http 0 URL`, and give --server the address that it prints"
            )
        return ForeignServer(url=text)
    try:
        command = tuple(shlex.split(text))
    except ValueError as error:
        raise WrongUseError(f"--server {text!r} is not a command line: {error}") from error
    if not command:
        raise WrongUseError("--server is empty: give a command line or a URL")
    return found_server(command)


def found_server(words: Sequence[str]) -> ForeignServer:
    """Return the server that a run was recorded with, if it can be started here.

    Raises:
        MissingDependencyError: the command does not exist.
    """
    if len(words) == 1 and words[0].startswith(("http://", "https://")):
        return ForeignServer(url=words[0])
    if shutil.which(words[0]) is None:
        raise MissingDependencyError(f"--server: there is no command {words[0]!r}: is it installed?")
    return ForeignServer(command=tuple(words))


def plan_prompts(prompts: Sequence[str], repeat: int) -> list[PlannedEpisode]:
    """Return the planned episodes: all prompts in order, `repeat` times.

    Raises:
        WrongUseError: there is no prompt, or one is empty.
    """
    if not prompts:
        raise WrongUseError("there is no prompt: give one with --prompt or --prompt-file")
    if not all(prompt.strip() for prompt in prompts):
        raise WrongUseError("a prompt is empty")
    return [
        PlannedEpisode(
            task=f"prompt_{number}", split=NO_SPLIT, domain=BENCHMARK, prompt=prompt, repeat=attempt
        )
        for attempt in range(repeat)
        for number, prompt in enumerate(prompts, 1)
    ]
